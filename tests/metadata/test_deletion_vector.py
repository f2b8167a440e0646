"""Deletion vectors: Java's files byte for byte, masks, and every flipped bit."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.commit_request import CommitRequest
from paimon_spark.metadata.deletion_vector import (
    MAGIC_32,
    MAGIC_64,
    DeletionVector,
    encode_vectors,
    read_deletion_vector,
)
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.snapshot import COMPACT
from paimon_spark.metadata.vector_range import DeletionVectorRef, VectorRange
from paimon_spark.rows.binary_row import EMPTY_ROW
from paimon_spark.storage.local import LocalStorage
from tests.metadata.made_up import added, new_table
from tests.metadata.test_manifest import steps

STORAGE = LocalStorage()
ROWS = 2**31
SMALL = {"a.parquet": DeletionVector.of([3, 7]), "b.parquet": DeletionVector.of(range(100, 400))}


def vector_files(golden: Path) -> Iterator[tuple[Path, dict[str, Any], dict[str, Any]]]:
    for description in sorted(golden.glob("vectors/java-*/dv/**/dv.json")):
        content = json.loads(description.read_text())
        for file in content["index_files"]:
            yield description.parent / file["file"], file, content["bitmaps"]


def ref(path: Path, where: VectorRange) -> DeletionVectorRef:
    return DeletionVectorRef(where.file, str(path), where.offset, where.length, where.cardinality)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_vectors_of_java_are_read_and_written_byte_for_byte(golden: Path) -> None:
    seen = 0
    for path, file, bitmaps in vector_files(golden):
        wide = "bitmap64" in path.parts
        vectors = {}
        for name, *rest in file["ranges"]:
            where = VectorRange(name, *rest)  # Java 0.9 knew no cardinality
            vector = vectors[name] = read_deletion_vector(STORAGE, ref(path, where), ROWS)
            expected = bitmaps[name.removeprefix("data-").removesuffix(".parquet")]
            assert vector.cardinality == expected["cardinality"]
            if all(isinstance(position, int) for position in expected["positions_or_rule"]):
                assert vector.positions().tolist() == expected["positions_or_rule"]
            seen += 1
        data, ranges = encode_vectors(vectors, wide)
        assert data == path.read_bytes()
        found = [[r.file, r.offset, r.length, r.cardinality] for r in ranges]
        assert [f[: len(e)] for f, e in zip(found, file["ranges"], strict=True)] == file["ranges"]
    assert seen >= 30


def test_vectors_of_every_table_that_java_wrote(golden: Path) -> None:
    seen = 0
    for metadata, step in steps(golden):
        refs = metadata.indexes.deletion_vectors(metadata.snapshots.get(step["snapshot"]))
        for split in step["splits"]:
            for file in split["files"]:
                if "dv" not in file:
                    continue
                (bucket,) = (b for b in refs.values() if file["name"] in b)
                where = bucket[file["name"]]
                assert where.index_path == f"{metadata.root}/{file['dv']['path']}"
                assert (where.offset, where.length) == (file["dv"]["offset"], file["dv"]["length"])
                vector = read_deletion_vector(metadata.storage, where, file["rows"])
                assert vector.positions().tolist() == file["dv"]["positions"]
                seen += 1
    assert seen > 30


def test_mask() -> None:
    vector = DeletionVector.of([0, 3, 4, 99, 2**31 - 1])
    assert vector.mask(0, 6).tolist() == [False, True, True, False, False, True]
    assert vector.mask(3, 5).tolist() == [False, False]
    assert vector.mask(5, 99).all()
    assert vector.mask(7, 7).shape == (0,)
    assert vector.mask(2**31 - 2, 2**31).tolist() == [True, False]
    assert vector.cardinality == 5


def test_masks_agree_with_positions_at_random() -> None:
    random = np.random.default_rng(3)
    positions = np.unique(random.integers(0, 200_000, 60_000))
    vector = DeletionVector.of(positions)
    keep = np.ones(200_000, np.bool_)
    keep[positions] = False
    for start in range(0, 200_000, 33_333):
        stop = min(start + 33_333, 200_000)
        assert (vector.mask(start, stop) == keep[start:stop]).all()


def test_union_leaves_the_vector_alone() -> None:
    vector = DeletionVector.of([1])
    assert vector.union(np.array([5, 1])).positions().tolist() == [1, 5]
    assert vector.positions().tolist() == [1]


@pytest.mark.parametrize("wide", [False, True])
def test_vectors_come_back(tmp_path: Path, wide: bool) -> None:
    vectors = {**SMALL, "c.parquet": DeletionVector.of([]), "d.parquet": DeletionVector.of([2**31 - 1])}
    data, ranges = encode_vectors(vectors, wide)
    path = write(tmp_path / "index", data)
    assert ranges[0].offset == 1
    ends = [r.offset + r.length + (0 if wide else 8) for r in ranges]
    assert [r.offset for r in ranges[1:]] == ends[:-1]
    assert ends[-1] == len(data)
    for where in ranges:
        assert read_deletion_vector(STORAGE, ref(path, where), ROWS) == vectors[where.file]
    assert encode_vectors({}, wide) == (b"\1", ())


def test_the_smallest_example_of_the_format() -> None:
    data, ranges = encode_vectors({"f": DeletionVector.of([3, 7])})
    assert data.hex() == "01000000185e43f2d03a30000001000000000001001000000003000700" + "1448545c"
    assert ranges == (VectorRange("f", 1, 24, 2),)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("cardinality_known", [False, True])
def test_every_flipped_bit_is_noticed_or_harmless(tmp_path: Path, wide: bool, cardinality_known: bool) -> None:
    data, ranges = encode_vectors(SMALL, wide)
    path = tmp_path / "index"
    noticed = 0
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        for where in ranges:
            known = where if cardinality_known else replace(where, cardinality=None)
            try:
                vector = read_deletion_vector(STORAGE, ref(path, known), 400)
            except CorruptFile:
                noticed += 1
            else:
                assert vector == SMALL[where.file], bit
    assert noticed == len(data) * 8 + 8  # each bit by the vector it belongs to, the version's by both


@pytest.mark.parametrize("wide", [False, True])
def test_every_cut_is_noticed(tmp_path: Path, wide: bool) -> None:
    data, ranges = encode_vectors(SMALL, wide)
    for size in range(len(data)):
        path = write(tmp_path / "index", data[:size])
        with pytest.raises(CorruptFile):
            read_deletion_vector(STORAGE, ref(path, ranges[1]), 400)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "change", [{"offset": 0}, {"offset": 2}, {"offset": 10**6}, {"length": 23}, {"length": 0}, {"cardinality": 3}]
)
def test_a_wrong_reference_is_noticed(tmp_path: Path, wide: bool, change: dict[str, int]) -> None:
    data, ranges = encode_vectors(SMALL, wide)
    path = write(tmp_path / "index", data)
    with pytest.raises(CorruptFile, match=r"a\.parquet"):
        read_deletion_vector(STORAGE, ref(path, replace(ranges[0], **change)), 400)


def test_positions_beyond_the_file_are_noticed(tmp_path: Path) -> None:
    data, ranges = encode_vectors({"f": DeletionVector.of([9])})
    path = write(tmp_path / "index", data)
    assert read_deletion_vector(STORAGE, ref(path, ranges[0]), 10).cardinality == 1
    with pytest.raises(CorruptFile, match="deletes row 9 of a data file with 9 rows"):
        read_deletion_vector(STORAGE, ref(path, ranges[0]), 9)


def framed(body: bytes) -> tuple[bytes, VectorRange]:
    data = b"\1" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return data, VectorRange("f", 1, len(body) + 8 if body[:4] == MAGIC_64 else len(body))


def test_dense_keys_with_empty_bitmaps_are_read(tmp_path: Path) -> None:
    empty, one = BitMap().serialize(), BitMap([5]).serialize()
    for keys, last in (((0, 1), 2**32 + 5), ((0,), 5)):
        parts = [struct.pack("<i", key) + (one if key == keys[-1] else empty) for key in keys]
        data, where = framed(MAGIC_64 + struct.pack("<q", len(keys)) + b"".join(parts))
        path = write(tmp_path / "index", data)
        if last < 2**32:
            assert read_deletion_vector(STORAGE, ref(path, where), 10).positions().tolist() == [last]
        else:
            with pytest.raises(CorruptFile, match="beyond what a data file can hold"):
                read_deletion_vector(STORAGE, ref(path, where), 10)


@pytest.mark.parametrize(
    "bitmap", [b"", b"\x3a\x30", b"\xff" * 40, BitMap(range(10)).serialize()[:-1], struct.pack("<II", 12346, 2**30)]
)
@pytest.mark.parametrize("magic", [struct.pack(">i", 1581511376), MAGIC_64])
def test_bitmaps_with_a_right_checksum_and_wrong_content(tmp_path: Path, magic: bytes, bitmap: bytes) -> None:
    data, where = framed(magic + bitmap)
    path = write(tmp_path / "index", data)
    with pytest.raises(CorruptFile):
        read_deletion_vector(STORAGE, ref(path, where), 10)


@pytest.mark.parametrize("wide", [False, True])
def test_vectors_of_a_committed_index_file(tmp_path: Path, wide: bool) -> None:
    metadata, schema = new_table(tmp_path)
    file = added()
    committer = Committer(metadata, schema, "u")
    committer.append([file])
    vectors = {file.file.name: DeletionVector.of([1, 8])}
    entry = metadata.indexes.write_vectors(EMPTY_ROW, 0, vectors, schema, wide)
    snapshot = committer.commit(CommitRequest(COMPACT, index_changes=[entry]))
    found = metadata.indexes.deletion_vectors(snapshot)[EMPTY_ROW, 0][file.file.name]
    assert read_deletion_vector(metadata.storage, found, 10) == vectors[file.file.name]
    assert live_files(metadata, snapshot) == [file]
    later = committer.append([added()])
    assert later.index_manifest == snapshot.index_manifest


def runs(stop: int) -> bytes:
    """The portable form of a bitmap of all positions below ``stop``: one run for each 65536."""
    bitmap = BitMap(range(stop))
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


BITS = BitMap(range(0, 60_000, 2)).serialize()
LIST = BitMap([1, 5, 9]).serialize()


@pytest.mark.parametrize(
    ("bitmap", "message"),
    [
        (BITS[:10] + struct.pack("<H", 4999) + BITS[12:], "Invalid bitmap"),
        (LIST[:-6] + struct.pack("<HHH", 9, 5, 1), "Invalid bitmap"),
        (LIST[:-6] + struct.pack("<HHH", 5, 5, 5), "Invalid bitmap"),
        (runs(2**27), "deletes row 134217727"),
    ],
    ids=["fewer than there are", "out of order", "twice", "all of 2**27 rows"],
)
@pytest.mark.parametrize("wide", [False, True])
def test_bitmaps_that_lie_about_themselves_are_refused(tmp_path: Path, bitmap: bytes, message: str, wide: bool) -> None:
    """Their checksum is right, so it is what the bitmap says of itself that has to be looked at, before it grows."""
    body = MAGIC_64 + struct.pack("<qi", 1, 0) + bitmap if wide else MAGIC_32 + bitmap
    data, where = framed(body)
    with pytest.raises(CorruptFile, match=message):
        read_deletion_vector(STORAGE, ref(write(tmp_path / "index", data), where), 60_000)
