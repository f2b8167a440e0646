"""A hash file has the same pages however it is built: its keys lie where they would if they came one by one, and its
values may wait in memory or go to disk early, foreseen rightly or not. Only where they were foreseen and the file is
compressed does it begin with another page."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from paimon_spark.errors import CorruptFile, InvalidInput, StorageError
from paimon_spark.lookup import HashLookupStore, compression, hash_index, hash_writer, local_file
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.hash_index import CollectedKeys, build_index
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.paged_output import PagedOutput, PlacedValues
from paimon_spark.lookup.sidecar import Sidecar
from paimon_spark.rows.byte_strings import varint
from tests.faults.fault_disk import FaultDisk
from tests.faults.fault_storage import BEFORE, TORN
from tests.java.referee import JavaPaimon
from tests.lookup.java_stores import JavaStores
from tests.lookup.stores import COMPRESSIONS

Pairs = list[tuple[bytes, bytes]]


def pairs_of(count: int, value_length: int = 40, key_length: int = 4) -> Pairs:
    rng = random.Random(count)
    return [(i.to_bytes(key_length, "big"), rng.randbytes(rng.randrange(value_length))) for i in range(count)]


def made(path: Path, pairs: Pairs, rows: int, rate: float | None, compression: str, page_size: int) -> HashContext:
    writer = HashLookupStore.writer(str(path), rows, rate, compression, page_size)
    for at in range(0, len(pairs), 50):
        keys, values = zip(*pairs[at : at + 50], strict=True)
        writer.put_many(keys, values)
    return writer.close()


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Values are placed from 500 bytes on, others go to disk from 2,000 on, in pieces of 100."""
    monkeypatch.setattr(hash_writer, "_PLACED_FROM", 500)
    monkeypatch.setattr(hash_writer, "_MOST_IN_MEMORY", 2000)
    monkeypatch.setattr(hash_writer, "_PIECE", 100)
    monkeypatch.setattr(hash_writer, "_COPY", 1000)
    monkeypatch.setattr(compression, "PIECE_SIZE", 1024)
    monkeypatch.setattr(local_file, "_COPY", 1000)
    monkeypatch.setattr(local_file, "_MOST_WAITING", 1000)
    return monkeypatch


FORESEEN, OTHERWISE = True, False
CASES: dict[str, tuple[Pairs, int, bool]] = {
    "as said": (pairs_of(1000), 1000, FORESEEN),
    "fewer rows": (pairs_of(900), 1000, OTHERWISE),
    "more rows": (pairs_of(1000), 300, OTHERWISE),
    "more rows than said from the start": (pairs_of(1000), 10, OTHERWISE),
    "unknown rows": (pairs_of(1000), 0, OTHERWISE),
    "offsets longer than expected": (pairs_of(100) + pairs_of(200, 2000)[100:], 200, OTHERWISE),
    "offsets shorter than expected": (pairs_of(50, 500) + pairs_of(500, 2)[50:], 500, OTHERWISE),
    "a second key length, late": (pairs_of(900) + pairs_of(100, 40, 3), 1000, OTHERWISE),
    "a second key length, then the first": (
        pairs_of(500) + pairs_of(100, 40, 9) + pairs_of(999)[501:],
        1000,
        OTHERWISE,
    ),
    "one more key, much later": ([*pairs_of(999), (b"", b"x" * 700)], 1000, OTHERWISE),
    "two key lengths at once": (sorted(pairs_of(300) + pairs_of(300, 30, 5)), 600, OTHERWISE),
    "one large value": ([*pairs_of(200), (b"tail", b"x" * 9000)], 201, FORESEEN),
    "only a large value": ([(b"tail", b"x" * 9000)], 1, FORESEEN),
    "equal values": ([(key, b"same" * 300) for key, _ in pairs_of(60)], 60, FORESEEN),
    "little in memory": (pairs_of(20), 20, OTHERWISE),
}


def in_turn(count: int, homes: list[int], slots: int) -> list[int]:
    """The number of the key in each slot if they come one by one; ``count`` where none is."""
    holders = [count] * slots
    for key, slot in enumerate(homes):
        while holders[slot] < count:
            slot = (slot + 1) % slots
        holders[slot] = key
    return holders


@pytest.mark.parametrize(("stretch_bits", "piece", "few"), [(17, 2**16, 128), (7, 100, 20), (4, 1000, 3), (0, 7, 1)])
@pytest.mark.parametrize("load", [0.3, 0.75, 0.95, 1.0])
def test_keys_lie_where_they_would_if_they_came_one_by_one(
    load: float, stretch_bits: int, piece: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_index, "_STRETCH_BITS", stretch_bits)
    monkeypatch.setattr(hash_index, "_PIECE", piece)
    monkeypatch.setattr(hash_index, "_FEW", few)
    rng = np.random.default_rng(int(load * 100))
    for count in (1, 2, 7, 100, 1500):
        keys = rng.permutation(count).astype(">u8").view(np.uint8).reshape(count, 8)
        offsets = np.cumsum(rng.integers(1, 2**33 // count, count))
        width = 8 + len(varint(int(offsets[-1])))
        rows = [bytes(key) + varint(offset) for key, offset in zip(keys, offsets.tolist(), strict=True)]
        slots = int(count / load)
        for first, last in ((0, slots), (0, slots // 20 + 1), (slots - slots // 20 - 1, slots)):
            hashes = rng.integers(first, last, count).astype(np.int32)
            collected = CollectedKeys()
            for at in range(0, count, 40):
                collected.add(keys[at : at + 40], hashes[at : at + 40], offsets[at : at + 40])
            found = build_index(collected, slots, width)
            expected = [[*rows, b""][key].ljust(width, b"\0") for key in in_turn(count, hashes.tolist(), slots)]
            assert found.tobytes() == b"".join(expected)
            assert not collected.keys


@pytest.mark.parametrize("stretch_bits", [17, 4, 0])
def test_equal_keys_are_found_wherever_they_meet(stretch_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_index, "_STRETCH_BITS", stretch_bits)
    rng = np.random.default_rng(stretch_bits)
    for count, homes in ((2, 1), (100, 100), (1000, 900), (300, 10)):
        for _ in range(20):
            keys = np.arange(count, dtype=">u8")
            hashes = rng.integers(0, homes, count).astype(np.int32)
            one, other = rng.choice(count, 2, replace=False)
            keys[one], hashes[one] = keys[other], hashes[other]
            collected = CollectedKeys()
            collected.add(keys.view(np.uint8).reshape(count, 8), hashes, np.arange(count) + 1)
            with pytest.raises(InvalidInput, match=f"but {keys[one : one + 1].tobytes().hex()} was put twice"):
                build_index(collected, count + 1, 10)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("case", CASES)
def test_values_on_disk_change_no_byte(
    case: str, compression: str, tmp_path: Path, on_disk: pytest.MonkeyPatch
) -> None:
    pairs, rows, foreseen = CASES[case]
    completed = []

    def complete(placed: PlacedValues, out: PagedOutput) -> None:
        completed.append(placed.start)
        plain_complete(placed, out)

    plain_complete = PlacedValues.complete
    on_disk.setattr(PlacedValues, "complete", complete)
    for number, page_size in enumerate((64, 1000, 4096, 65536)):
        rate = 0.1 if number % 2 else None
        context = made(tmp_path / "early", pairs, rows, rate, compression, page_size)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(hash_writer, "_PLACED_FROM", 2**26)
            patched.setattr(hash_writer, "_MOST_IN_MEMORY", 2**26)
            made(tmp_path / "late", pairs, rows, rate, compression, page_size)
        assert completed == [max(context.data_offsets)] * foreseen
        completed.clear()
        assert sorted(os.listdir(tmp_path)) == ["early", "early.context", "late", "late.context"]
        several = max(context.data_offsets) // page_size < (context.length - 1) // page_size
        assert (context.first_page > 0) == (foreseen and several and compression != "none")
        content, start = (tmp_path / "early").read_bytes(), (context.page_starts or (0,))[0]
        assert content[start:] + content[:start] == (tmp_path / "late").read_bytes()
        early, late = (Sidecar.read(str(tmp_path / name), "hash") for name in ("early", "late"))
        assert early.header | {"first_page": 0} == late.header
        assert early.checksums.tolist() == late.checksums.tolist()
        opened = HashLookupStore.reader(str(tmp_path / "early"))
        assert opened.get_many([key for key, _ in pairs]).to_pylist() == [value for _, value in pairs]
        opened.close()
        for name in os.listdir(tmp_path):
            (tmp_path / name).unlink()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_java_reads_a_file_that_begins_with_its_values(
    compression: str, java: JavaPaimon, tmp_path: Path, on_disk: pytest.MonkeyPatch
) -> None:
    pairs = pairs_of(400)
    context = made(tmp_path / "file", pairs, len(pairs), 0.1, compression, 2048)
    assert (context.first_page > 1) == (compression != "none")
    opened = JavaStores(java).reader("hash", tmp_path / "file", context, compression, 2048)
    assert [bytes(opened.lookup(key)) for key, _ in pairs] == [value for _, value in pairs]
    assert opened.lookup(b"none") is None
    opened.close()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_flipped_bit_in_a_file_that_begins_with_its_values(
    compression: str, tmp_path: Path, on_disk: pytest.MonkeyPatch
) -> None:
    pairs, path = pairs_of(80), tmp_path / "file"
    assert made(path, pairs, len(pairs), None, compression, 256).first_page > 1
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        opened = HashLookupStore.reader(str(path), cache=LookupMemory(0))
        with pytest.raises(CorruptFile, match="file"):
            opened.get_many([key for key, _ in pairs])
        opened.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("case", ["as said", "fewer rows", "a second key length, late"])
@pytest.mark.parametrize("fault", [BEFORE, TORN])
def test_whatever_call_of_the_disk_fails_nothing_is_left(
    fault: str, case: str, compression: str, tmp_path: Path, on_disk: pytest.MonkeyPatch
) -> None:
    pairs, rows, _ = CASES[case]
    pairs, rows = pairs[::10], rows // 10
    disk = FaultDisk()
    disk.install_under_lookups(on_disk)
    made(tmp_path / "plain", pairs, rows, 0.1, compression, 512)
    log, calls = disk.log, len(disk.log)
    assert ("rename" in log) == (case == "as said")
    for number in range(calls):
        if log[number] == "unlink":
            continue
        disk.arm(number, fault)
        with pytest.raises(StorageError, match=r"no space|disk is full"):
            made(tmp_path / "full", pairs, rows, 0.1, compression, 512)
        assert sorted(os.listdir(tmp_path)) == ["plain", "plain.context"], f"call {number}, {log[number]}"
    disk.arm(-1)
    made(tmp_path / "full", pairs, rows, 0.1, compression, 512)
    assert (tmp_path / "full").read_bytes() == (tmp_path / "plain").read_bytes()


def test_pages_that_come_back_damaged_are_refused(tmp_path: Path, on_disk: pytest.MonkeyPatch) -> None:
    writer = HashLookupStore.writer(str(tmp_path / "file"), 1000, None, "lz4", 512)
    keys, values = zip(*pairs_of(300), strict=True)
    writer.put_many(keys, values)
    with (tmp_path / "file.pages").open("r+b") as file:
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(CorruptFile, match="checksum"):
        writer.close()
    assert list(tmp_path.iterdir()) == []
