"""Deletion vectors: which rows of a data file are deleted, by their position in it (0-based, all rows counted).

An index file holds the vectors of one bucket's files::

    1 byte           version = 1
    entries, back to back, in the order of the index manifest's ranges

    32 bits (V1)                                     64 bits (V2)
    int32 BE size  = 4 + len(bitmap)                 int32 BE size  = 4 + len(bitmap)
    int32 BE magic = 0x5E43F2D0                      int32 LE magic = 0x6439D3D1
    bitmap: RoaringBitmap, portable                  bitmap: int64 LE n, n x {int32 LE high half; RoaringBitmap}
    int32 BE CRC-32 of magic and bitmap              int32 BE CRC-32 of magic and bitmap

    recorded offset: of ``size``                     the same
    recorded length: size                            size + 8

The magic tells the forms apart. A data file has less than 2**32 rows, so n is 0 or 1 and the high half 0. The checksum
is always verified: positions that a flipped bit changed would delete other rows than those that were meant.

Source: ``DeletionFileWriter``, ``BitmapDeletionVector``, ``Bitmap64DeletionVector`` of Apache Paimon.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile, StorageError
from paimon_spark.metadata.vector_range import DeletionVectorRef, VectorRange
from paimon_spark.storage.storage import Storage

FILE_VERSION = b"\x01"
MAGIC_32 = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The positions of a data file's deleted rows, as a compressed bitmap that is not changed any more."""

    bitmap: BitMap

    @staticmethod
    def of(positions: Iterable[int] | npt.NDArray[np.integer]) -> DeletionVector:
        """The vector that deletes these positions, each below 2**31."""
        return DeletionVector(BitMap(positions))

    @property
    def cardinality(self) -> int:
        """The number of deleted rows."""
        return len(self.bitmap)

    def mask(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Which of the rows from ``start`` to ``stop`` (exclusive) are left: True keeps, False is deleted."""
        keep = np.ones(stop - start, np.bool_)
        deleted = (self.bitmap & BitMap(range(start, stop))).to_array()
        keep[np.frombuffer(deleted, np.uint32).astype(np.int64) - start] = False
        return keep

    def positions(self) -> npt.NDArray[np.int64]:
        """The deleted positions, ascending."""
        return np.frombuffer(self.bitmap.to_array(), np.uint32).astype(np.int64)

    def union(self, positions: Iterable[int] | npt.NDArray[np.integer]) -> DeletionVector:
        """The vector that deletes these positions too."""
        return DeletionVector(self.bitmap | BitMap(positions))


def read_deletion_vector(storage: Storage, ref: DeletionVectorRef, row_count: int) -> DeletionVector:
    """The vector of a data file that has ``row_count`` rows.

    :raises CorruptFile: size, magic, checksum, number of rows or a position are not what they have to be
    :raises StorageError: the file cannot be read
    :raises NotFound: the index file is gone (its snapshot expired)
    """
    try:
        with storage.open(ref.index_path) as file:
            size = file.size()
            version = file.read_at(1, 0) if size else b""
            wanted = max(0, min(ref.length + 8, size - ref.offset))
            data = file.read_at(wanted, ref.offset) if wanted else b""
    except OSError as problem:
        raise StorageError(f"cannot read {ref.index_path}: {problem}") from problem
    try:
        if version != FILE_VERSION:
            raise ValueError(f"the file begins with {version.hex()}, not with version 1")
        vector = DeletionVector(_decode(data, ref.length))
        _check(vector, ref, row_count)
    except ValueError as problem:
        raise CorruptFile(
            ref.index_path, f"the deletion vector of {ref.file} at offset {ref.offset}: {problem}"
        ) from None
    return vector


def _decode(data: bytes, length: int) -> BitMap:
    if len(data) < 12:
        raise ValueError("it is cut off")
    (size,) = struct.unpack(">i", data[:4])
    magic = data[4:8]
    expected = {MAGIC_32: length, MAGIC_64: length - 8}.get(magic)
    if expected is None:
        raise ValueError(f"{magic.hex()} is not the magic of a deletion vector")
    if size != expected or size < 4 or len(data) < size + 8:
        raise ValueError(f"it claims {size} bytes, the index manifest {expected}, the file has {len(data) - 8}")
    (checksum,) = struct.unpack(">I", data[4 + size : 8 + size])
    if crc32(data[4 : 4 + size]) != checksum:
        raise ValueError("its checksum does not match")
    body = data[8 : 4 + size]
    try:
        return BitMap.deserialize(body if magic == MAGIC_32 else _low_half(body))
    except IndexError:
        raise ValueError("its bitmap is empty of bytes") from None


def _low_half(body: bytes) -> bytes:
    """The 32-bit bitmap of a 64-bit one that marks nothing from 2**32 on. It is never expanded: a few kilobytes of runs
    can mark billions of rows."""
    if len(body) < 8:
        raise ValueError("its bitmap is cut off")
    (halves,) = struct.unpack_from("<q", body)
    if halves == 0:
        return bytes(BitMap().serialize())
    if halves != 1 or body[8:12] != bytes(4):
        raise ValueError(f"its bitmap has {halves} parts: it deletes rows beyond what a data file can hold")
    return body[12:]


def _check(vector: DeletionVector, ref: DeletionVectorRef, row_count: int) -> None:
    if vector.bitmap and vector.bitmap.max() >= row_count:
        raise ValueError(f"it deletes row {vector.bitmap.max()} of a data file with {row_count} rows")
    if ref.cardinality is not None and vector.cardinality != ref.cardinality:
        raise ValueError(f"it deletes {vector.cardinality} rows, the index manifest says {ref.cardinality}")


def encode_vectors(vectors: Mapping[str, DeletionVector], wide: bool = False) -> tuple[bytes, tuple[VectorRange, ...]]:
    """The content of an index file with these vectors, by data file name, and where in it they are.

    ``wide`` chooses the 64-bit form, which Paimon reads since 1.2. No vectors make a file of one byte.
    """
    parts = [FILE_VERSION]
    ranges: list[VectorRange] = []
    offset = 1
    for file, vector in vectors.items():
        body = _body(vector, wide)
        size = len(body)
        parts += [struct.pack(">i", size), body, struct.pack(">I", crc32(body))]
        ranges.append(VectorRange(file, offset, size + 8 if wide else size, vector.cardinality))
        offset += size + 8
    return b"".join(parts), tuple(ranges)


def _body(vector: DeletionVector, wide: bool) -> bytes:
    """Magic and bitmap."""
    bitmap = BitMap64(vector.bitmap) if wide else vector.bitmap.copy()
    bitmap.run_optimize()
    body: bytes = (MAGIC_64 if wide else MAGIC_32) + bitmap.serialize()
    return body
