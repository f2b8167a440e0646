"""Blocks of a sort file that is larger than the memory for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.store_reader import StoreReader
from paimon_spark.lookup.stored_blocks import StoredBlocks
from paimon_spark.rows.byte_strings import Bytes, Int64s
from tests.lookup.stores import build, reader

COUNT, BLOCK = 20_000, 1024
KEYS = [b"%08d" % i for i in range(COUNT)]
PAIRS = {key: key * (i % 3 + 4) for i, key in enumerate(KEYS)}
MEMORY = 400_000


class OpenedBlocks:
    """Where the blocks are that are read and checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._offsets: list[int] = []
        load = StoredBlocks.load

        def counted(blocks: StoredBlocks, offsets: Int64s, sizes: Int64s, room: Bytes) -> tuple[Bytes, Int64s, Int64s]:
            self._offsets += offsets.tolist()
            return load(blocks, offsets, sizes, room)

        monkeypatch.setattr(StoredBlocks, "load", counted)

    def taken(self) -> list[int]:
        """Those since the last call."""
        offsets, self._offsets = self._offsets, []
        return offsets


def check(opened: StoreReader, wanted: list[bytes], cache: LookupMemory) -> None:
    assert opened.get_many(wanted).to_pylist() == [PAIRS[key] for key in wanted]
    budget, priority = cache.blocks.budget, cache.priority.budget
    assert priority.used <= budget.used <= max(budget.limit, priority.used)


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("memory", [0, 10_000, MEMORY, 2**24])
def test_a_batch_opens_each_block_once(
    memory: int, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("sort", tmp_path / "file", PAIRS, None, compression, BLOCK)
    blocks, cache = OpenedBlocks(monkeypatch), LookupMemory(memory, 0.5)
    opened = reader("sort", tmp_path / "file", cache)
    for seed in range(3):
        blocks.taken()
        check(opened, [KEYS[i] for i in np.random.default_rng(seed).integers(0, COUNT, 3_000)], cache)
        offsets = blocks.taken()
        assert len(set(offsets)) == len(offsets)
    assert cache.blocks.budget.used > min(memory, 2**18) // 4 or memory < 2**14
    opened.close()
    assert cache.blocks.budget.used == 0


def test_a_scan_of_the_file_leaves_what_fits_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build("sort", tmp_path / "file", PAIRS, None, "none", BLOCK)
    blocks, cache = OpenedBlocks(monkeypatch), LookupMemory(MEMORY, 0.5)
    opened = reader("sort", tmp_path / "file", cache)
    turns = []
    for _ in range(4):
        blocks.taken()
        for at in range(0, COUNT, 500):
            check(opened, KEYS[at : at + 500], cache)
        turns.append(len(set(blocks.taken())))
    assert max(turns[1:]) < turns[0] * 0.9
    opened.close()


def test_what_is_used_again_takes_the_place_of_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "new"):
        build("sort", tmp_path / name, PAIRS, None, "none", BLOCK)
    blocks, cache = OpenedBlocks(monkeypatch), LookupMemory(MEMORY, 0.5)
    old, new = reader("sort", tmp_path / "old", cache), reader("sort", tmp_path / "new", cache)
    check(old, KEYS, cache)
    check(new, KEYS[:500], cache)
    check(new, KEYS[:500], cache)
    blocks.taken()
    check(new, KEYS[:500], cache)
    assert not blocks.taken()
    old.close()
    new.close()
