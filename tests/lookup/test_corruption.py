"""Damage to a lookup file or its sidecar: the right answer or ``CorruptFile`` that names the file, never a wrong
answer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.lookup import HashLookupStore, SortLookupStore
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.sidecar import Sidecar, sidecar_path
from tests.lookup.stores import COMPRESSIONS, KINDS, build, cut, reader, sort_context

PAIRS = {b"key %04d" % i: b"value %d" % (i * i) * (i % 4) for i in range(120)} | {b"%d" % i: b"x" for i in range(20)}
WANTED = [*PAIRS, b"absent", b"key 9999", b""]


def refused_or_right(kind: str, path: Path, pairs: dict[bytes, bytes] = PAIRS) -> bool:
    """Whether the damage was noticed; a wrong answer fails the test."""
    wanted = [*pairs, *WANTED[-3:]]
    try:
        opened = reader(kind, path, LookupMemory(1 << 20))
        try:
            # What is known of the keys by the first answer is used for the second.
            for _ in range(2):
                assert opened.get_many(wanted).to_pylist() == [pairs.get(key) for key in wanted]
        finally:
            opened.close()
    except CorruptFile as problem:
        return str(path) in problem.path
    return False


@pytest.mark.parametrize("rate", [None, 0.05])
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_flipped_bit_anywhere(kind: str, compression: str, rate: float | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    build(kind, path, PAIRS, rate, compression, page_size=512)
    flip_each_byte(kind, path, PAIRS)


def flip_each_byte(kind: str, path: Path, pairs: dict[bytes, bytes], unread: Collection[int] = ()) -> None:
    """Damage to every byte of the file is noticed, but to those that are ``unread``, and to its sidecar."""
    for part in (path, Path(sidecar_path(str(path)))):
        whole = part.read_bytes()
        with part.open("r+b") as file:
            for at in range(len(whole)):
                file.seek(at)
                file.write(bytes([whole[at] ^ 1 << at % 8]))
                file.flush()
                noticed = refused_or_right(kind, path, pairs)
                assert noticed or (part == path and at in unread), (
                    f"bit {at % 8} of byte {at} of {part.name} went unnoticed"
                )
                file.seek(at)
                file.write(whole[at : at + 1])
            file.flush()
    assert not refused_or_right(kind, path, pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_one_flipped_bit_anywhere_in_pieces(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 128)
    test_one_flipped_bit_anywhere(kind, "zstd", 0.05, tmp_path)


@pytest.mark.parametrize("lengths", [1, 2])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_one_flipped_bit_where_keys_are_listed(
    compression: str, lengths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 256)
    path, pairs = tmp_path / "file", {b"k%d" % i: b"%d" % i * (150 + i % lengths) for i in range(10, 16)}
    build("sort", path, pairs, None, compression, page_size=512)
    context = sort_context(path)
    assert context.keys is not None
    assert (context.keys.key_lengths == 3).any() == (lengths == 1)
    # What lies around the pieces of blocks is not read for keys that are listed.
    unread = set()
    if context.pieces is not None:
        starts, sizes = context.pieces.piece_starts().tolist(), context.pieces.sizes.tolist()
        unread = set(range(starts[-1] + sizes[-1] + 5))
        for start, size in zip(starts, sizes, strict=True):
            unread -= set(range(start, start + size))
    flip_each_byte("sort", path, pairs, unread)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_truncation_at_every_length(kind: str, compression: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    build(kind, path, PAIRS, 0.05, compression, page_size=512)
    for part in (path, Path(sidecar_path(str(path)))):
        whole = part.read_bytes()
        for length in range(len(whole) - 1, -1, -1):
            os.truncate(part, length)
            assert refused_or_right(kind, path), f"{part.name} cut to {length} bytes went unnoticed"
        part.write_bytes(whole + b"\x00")
        assert refused_or_right(kind, path), f"{part.name} made longer went unnoticed"
        part.write_bytes(whole)
    assert not refused_or_right(kind, path)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_truncated_at_every_length(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 128)
    test_truncation_at_every_length(kind, "zstd", tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_after_opening_is_noticed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    build(kind, path, PAIRS, 0.05, page_size=512)
    opened = reader(kind, path, LookupMemory(0))
    whole = bytearray(path.read_bytes())
    for at in range(0, len(whole), 97):
        whole[at] ^= 0x10
        path.write_bytes(whole)
        with pytest.raises(CorruptFile, match="file"):
            opened.get_many(WANTED)
        whole[at] ^= 0x10
    path.write_bytes(whole)
    assert opened.get_many(WANTED).to_pylist() == [PAIRS.get(key) for key in WANTED]
    opened.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damage_is_noticed_where_only_values_are_read(compression: str, tmp_path: Path) -> None:
    """Index and keys are in memory; there is no room for values."""
    path = tmp_path / "file"
    build("sort", path, PAIRS, 0.05, compression, page_size=512)
    memory = LookupMemory(1 << 20, 1.0)
    opened = reader("sort", path, memory)
    opened.get_many(WANTED)
    memory.priority.budget.take(memory.priority.budget.limit - memory.priority.budget.used)
    whole = bytearray(path.read_bytes())
    refused = 0
    for at in range(0, len(whole), 61):
        assert opened.get_many(WANTED).to_pylist() == [PAIRS.get(key) for key in WANTED]
        whole[at] ^= 0x10
        path.write_bytes(whole)
        try:
            assert opened.get_many(WANTED).to_pylist() == [PAIRS.get(key) for key in WANTED]
        except CorruptFile:
            refused += 1
        whole[at] ^= 0x10
        path.write_bytes(whole)
    assert refused > len(whole) // 61 // 2
    opened.close()


def test_damage_is_noticed_where_only_pieces_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 128)
    test_damage_is_noticed_where_only_values_are_read("zstd", tmp_path)


def test_of_a_block_only_the_pieces_that_are_wanted_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is damaged in turn: with keys in memory and no room for values, only its own values are refused."""
    cut(monkeypatch, 4096)
    path, pairs = tmp_path / "file", {b"%03d" % i: b"%d " % i * 250 for i in range(100, 160)}
    build("sort", path, pairs, None, "zstd", page_size=16384)
    pieces, whole = sort_context(path).pieces, path.read_bytes()
    assert pieces is not None
    memory = LookupMemory(1 << 20, 1.0)
    opened = reader("sort", path, memory)
    opened.get_many(list(pairs))
    memory.priority.budget.take(memory.priority.budget.limit - memory.priority.budget.used)
    for space in memory.pages.spaces:
        space.evict(np.flatnonzero(space.resident))
    refused = []
    for start in pieces.piece_starts().tolist():
        path.write_bytes(whole[:start] + bytes([whole[start] ^ 1]) + whole[start + 1 :])
        for key, value in pairs.items():
            try:
                assert opened.get(key) == value
            except CorruptFile:
                refused.append(key)
    # A value of 1,000 bytes lies in one piece of 4,096 bytes or in two.
    assert set(refused) == set(pairs)
    assert len(pairs) < len(refused) < 2 * len(pairs)
    opened.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_after_opening_is_noticed(kind: str, compression: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    build(kind, path, PAIRS, 0.05, compression, page_size=512)
    opened = reader(kind, path, LookupMemory(0))
    assert opened.get_many(WANTED).to_pylist() == [PAIRS.get(key) for key in WANTED]
    for length in range(path.stat().st_size - 1, 0, -61):
        os.truncate(path, length)
        with pytest.raises(CorruptFile, match="file"):
            opened.get_many(WANTED)
    opened.close()


@pytest.mark.parametrize("kind", KINDS)
def test_sidecars_of_other_files_are_refused(kind: str, tmp_path: Path) -> None:
    build(kind, tmp_path / "one", PAIRS, page_size=512)
    build(kind, tmp_path / "two", {key: value[::-1] for key, value in PAIRS.items()}, page_size=512)
    shutil.copy(sidecar_path(str(tmp_path / "two")), sidecar_path(str(tmp_path / "one")))
    assert refused_or_right(kind, tmp_path / "one") or kind == "sort"
    build("sort" if kind == "hash" else "hash", tmp_path / "three", PAIRS)
    with pytest.raises(CorruptFile, match="describes a"):
        reader(kind, tmp_path / "three")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_sidecar_and_links_are_refused(kind: str, tmp_path: Path) -> None:
    build(kind, tmp_path / "file", PAIRS)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "link.context").symlink_to(tmp_path / "file.context")
    with pytest.raises(CorruptFile, match="link"):
        reader(kind, tmp_path / "link")
    Path(sidecar_path(str(tmp_path / "file"))).unlink()
    with pytest.raises(CorruptFile, match="context is missing"):
        reader(kind, tmp_path / "file")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_dropped_while_it_is_opened_is_gone_and_not_damaged(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, read = tmp_path / "place", Sidecar.read
    place.mkdir()
    build(kind, place / "file", PAIRS)

    def drop_first(path: str, kind: str) -> Sidecar:
        shutil.rmtree(place)
        return read(path, kind)

    monkeypatch.setattr(Sidecar, "read", drop_first)
    with pytest.raises(NotFound, match="does not exist"):
        reader(kind, place / "file")


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_context_without_pieces_is_read_by_pages(
    compression: str, checked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Java makes them, and this package made them before it wrote pieces."""
    cut(monkeypatch, 128)
    path = tmp_path / "file"
    build("hash", path, PAIRS, 0.05, compression, page_size=512)
    context = HashContext.from_sidecar(str(path), Sidecar.read(str(path), "hash"))
    assert context.page_starts is not None
    content = path.read_bytes()
    pages = [content[start:stop] for start, stop in pairwise((*context.page_starts, len(content)))]
    checksums = np.array([crc32(page) for page in pages], np.uint32) if checked else None
    older = replace(context, piece_size=None, piece_sizes=None, checksums=checksums)
    if checked:
        Path(sidecar_path(str(path))).unlink()
        older.sidecar().write(str(path))
        assert not refused_or_right("hash", path)
    for start in context.page_starts[:3]:
        opened = HashLookupStore.reader(str(path), older, LookupMemory(0))
        assert opened.get_many(WANTED).to_pylist() == [PAIRS.get(key) for key in WANTED]
        path.write_bytes(
            content[:start] + bytes([*content[start : start + 3], content[start + 3] ^ 1]) + content[start + 4 :]
        )
        with pytest.raises(CorruptFile, match="file"):
            opened.get_many(WANTED)
        opened.close()
        path.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        {"piece_size": 100},
        {"piece_size": 0},
        {"piece_size": 1024},
        {"piece_size": 256},
        {"checksums": None},
        {"compression": "none"},
        {"page_starts": None, "piece_sizes": None},
        {"first_page": 1},
    ],
)
def test_pieces_that_do_not_fit_the_file_are_refused(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 128)
    path = tmp_path / "file"
    build("hash", path, PAIRS, 0.05, "zstd", page_size=512)
    context = HashContext.from_sidecar(str(path), Sidecar.read(str(path), "hash"))
    with pytest.raises(CorruptFile, match="file"):
        HashLookupStore.reader(str(path), replace(context, **change)).get_many(WANTED)


def test_a_sort_context_without_pieces_is_read_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As this package made them before it wrote pieces."""
    cut(monkeypatch, 128)
    path = tmp_path / "file"
    build("sort", path, PAIRS, 0.05, "zstd", page_size=512)
    context = sort_context(path)
    assert context.pieces is not None
    Path(sidecar_path(str(path))).unlink()
    replace(context, pieces=None).sidecar().write(str(path))
    assert not refused_or_right("sort", path)
    with path.open("r+b") as file:
        file.seek(int(context.pieces.piece_starts()[2]))
        file.write(b"\x00")
    assert refused_or_right("sort", path)


@pytest.mark.parametrize(
    "change",
    [
        {"piece_size": 100},
        {"piece_size": 0},
        {"piece_size": 2**30},
        {"piece_size": 256},
        {"lengths": 1},
        {"lengths": -1},
        {"starts": 1},
        {"starts": -1},
        {"starts": 2**40},
        {"sizes": 1},
        {"sizes": 2**31},
        {"checksums": 1},
    ],
)
def test_pieces_that_do_not_fit_the_blocks_are_refused(
    change: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(monkeypatch, 128)
    path = tmp_path / "file"
    build("sort", path, PAIRS, 0.05, "zstd", page_size=512)
    context = sort_context(path)
    assert context.pieces is not None
    ((name, amount),) = change.items()
    if name != "piece_size":
        column = getattr(context.pieces, name).copy()
        column[1] += amount
        pieces = replace(context.pieces, **{name: column})
    else:
        pieces = replace(context.pieces, piece_size=amount)
    Path(sidecar_path(str(path))).unlink()
    replace(context, pieces=pieces).sidecar().write(str(path))
    assert refused_or_right("sort", path)


def test_pieces_of_another_number_of_blocks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 128)
    build("sort", tmp_path / "one", PAIRS, 0.05, "zstd", page_size=512)
    build("sort", tmp_path / "two", dict(list(PAIRS.items())[:60]), 0.05, "zstd", page_size=512)
    one, two = sort_context(tmp_path / "one"), sort_context(tmp_path / "two")
    with pytest.raises(CorruptFile, match="other blocks"):
        SortLookupStore.reader(str(tmp_path / "one"), replace(one, pieces=two.pieces))
