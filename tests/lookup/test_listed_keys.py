"""Keys of a sort file's blocks that lie beside it: what is listed, and that blocks are not read for it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile
from paimon_spark.lookup import SortLookupStore
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.lookup.sidecar import Sidecar, sidecar_path
from paimon_spark.lookup.sort_layout import SortContext
from paimon_spark.rows.compact_row import encode
from paimon_spark.types import parse_type
from tests.lookup.stores import build, cut, reader, sort_context

PAGED = ("none", "zstd")


def alike(count: int) -> dict[bytes, bytes]:
    """Keys of one length, and values."""
    return {b"%06d" % (2 * i): b"%04d" % (i % 1000) * 50 for i in range(count)}


def mixed(count: int) -> dict[bytes, bytes]:
    """Blocks of entries that are alike and of others, with keys of other lengths, and of keys that are too long."""
    pairs = alike(count) | {b"a%d" % i: b"%d " % i * (60 + i % 3) for i in range(count)}
    pairs |= {b"b%06d" % i: b"%d" % (i % 7) * 300 for i in range(count)}
    return pairs | {b"c%06d" % i: b"short" for i in range(count)} | {b"d%d" % i * 40: b"x" * 200 for i in range(count)}


@pytest.mark.parametrize("compression", PAGED)
def test_short_keys_are_listed_and_no_block_is_read_for_them(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 1024)
    path, pairs = tmp_path / "file", alike(200)
    build("sort", path, pairs, None, compression, 4096)
    keys = sort_context(path).keys
    assert keys is not None
    assert int(keys.entries.sum()) == len(pairs)
    opened = reader("sort", path, LookupMemory(1 << 20))
    whole = path.read_bytes()
    start = len(whole) * 3 // 4
    # Behind three quarters of the data blocks all is right, before it nothing.
    path.write_bytes(bytes(start) + whole[start:])
    last = max(pairs)
    assert opened.get(last) == pairs[last]
    assert opened.get_many([key + b"absent" for key in pairs][:-1]).null_count == len(pairs) - 1
    with pytest.raises(CorruptFile, match="file"):
        opened.get(min(pairs))
    opened.close()


@pytest.mark.parametrize("compression", PAGED)
@pytest.mark.parametrize("memory", [0, 3_000, 60_000, 2**22])
def test_entries_of_all_kinds_are_found(
    memory: int, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the keys have no room in memory, or keys that come later take it from others."""
    cut(monkeypatch, 1024)
    path, pairs = tmp_path / "file", mixed(150)
    build("sort", path, pairs, None, compression, 4096)
    keys = sort_context(path).keys
    assert keys is not None
    assert 0 < (keys.entries > 0).sum() < len(keys.entries)
    assert len(set(keys.key_lengths[keys.entries > 0].tolist())) > 2
    cache, rng = LookupMemory(memory, 0.5), random.Random(1)
    opened = reader("sort", path, cache)
    for count in (1, 5, 40, len(pairs), len(pairs)):
        asked = [*rng.sample(list(pairs), count), b"", b"000001", b"a", b"a1 ", b"zzz"]
        rng.shuffle(asked)
        assert opened.get_many(asked).to_pylist() == [pairs.get(key) for key in asked]
    opened.close()
    assert (cache.pages.budget.used, cache.priority.budget.used) == (0, 0)


def test_keys_in_an_order_of_types_are_listed(tmp_path: Path) -> None:
    order = CompactOrder([parse_type("BIGINT NOT NULL")])
    numbers = np.arange(-300, 300)
    keys = encode([pa.array(numbers)], order._types)
    values = pa.array([b"%d " % number * 100 for number in numbers], pa.binary())
    made = SortLookupStore.writer(str(tmp_path / "file"), 600, None, "none", 4096, order)
    made.put_many(keys, values)
    assert made.close().keys is not None
    opened = SortLookupStore.reader(str(tmp_path / "file"), order=order)
    assert opened.get_many(keys[::-1]).to_pylist() == values.to_pylist()[::-1]
    opened.close()


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_what_is_listed_is_little(compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing where keys are more than a sixteenth, or where values are not read by pages."""
    cut(monkeypatch, 1024)
    path, pairs = tmp_path / "file", {b"%06d" % i: b"v" * 80 for i in range(500)}
    build("sort", path, pairs, None, compression, 4096)
    assert sort_context(path).keys is None
    long = alike(500)
    build("sort", tmp_path / "long", long, None, compression, 4096)
    attached = Sidecar.read(str(tmp_path / "long"), "sort").attached
    assert attached == (0 if compression == "lz4" else sum(map(len, long)))
    opened = reader("sort", tmp_path / "long")
    assert opened.size >= (tmp_path / "long").stat().st_size + attached
    opened.close()


@pytest.mark.parametrize("compression", PAGED)
def test_without_the_sidecar_blocks_are_read(compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 1024)
    path, pairs = tmp_path / "file", mixed(50)
    build("sort", path, pairs, 0.05, compression, 4096)
    context = sort_context(path)
    Path(sidecar_path(str(path))).unlink()
    opened = SortLookupStore.reader(str(path), context, LookupMemory(1 << 20))
    assert opened.get_many(list(pairs)).to_pylist() == list(pairs.values())
    opened.close()


@pytest.mark.parametrize("pairs", [alike(60), mixed(20)])
@pytest.mark.parametrize("column", ["entries", "key_lengths", "value_lengths", "sizes", "checksums"])
def test_keys_that_do_not_fit_the_blocks_are_refused(column: str, pairs: dict[bytes, bytes], tmp_path: Path) -> None:
    path = tmp_path / "file"
    build("sort", path, pairs, None, "none", 1024)
    context = sort_context(path)
    assert context.keys is not None
    refused = 0
    for number in np.flatnonzero(context.keys.entries)[:10].tolist():
        for amount in (-1, 1, 2**31):
            values = getattr(context.keys, column).astype(np.int64)
            values[number] += amount
            changed = replace(context.keys, **{column: values.astype(getattr(context.keys, column).dtype)})
            refused += refused_or_right(path, replace(context, keys=changed), pairs)
    # Of a block whose lengths differ that of its values says nothing.
    assert refused == 30 or (column == "value_lengths" and refused)


def refused_or_right(path: Path, context: SortContext, pairs: dict[bytes, bytes]) -> bool:
    try:
        opened = SortLookupStore.reader(str(path), context, LookupMemory(1 << 20))
        try:
            assert opened.get_many(list(pairs)).to_pylist() == list(pairs.values())
        finally:
            opened.close()
    except CorruptFile as problem:
        return str(path) in problem.path
    return False


def test_nothing_is_left_of_a_file_that_is_given_up(tmp_path: Path) -> None:
    pairs = alike(100)
    made = SortLookupStore.writer(str(tmp_path / "file"), 100, None, "none", 1024)
    made.put_many(list(pairs), list(pairs.values()))
    assert len(list(tmp_path.iterdir())) == 2
    made.abort()
    assert list(tmp_path.iterdir()) == []
