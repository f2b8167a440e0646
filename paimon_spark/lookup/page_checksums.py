"""PageChecksums: a CRC-32 of each page of what is written to a file, and pages read and checked by them alone."""

from __future__ import annotations

from array import array

import numpy as np

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.sidecar import Checksums
from paimon_spark.rows.byte_strings import Bytes, Int64s

PAGE_SIZE = 4096
"""Bytes under one checksum where nothing is compressed; no more need to be read for one value."""


class PageChecksums:
    """The checksums of a file's pages, counted as it is written."""

    def __init__(self, size: int) -> None:
        """Pages of ``size`` bytes."""
        self._size = size
        self._done = array("I")
        self._open, self._filled = 0, 0

    def add(self, data: bytes | memoryview) -> None:
        """Bytes that follow those added before."""
        view, size, at = memoryview(data), self._size, 0
        if self._filled:
            at = min(len(view), size - self._filled)
            self._extend(view[:at])
        stop = at + (len(view) - at) // size * size
        if stop > at:
            self._done.extend(map(crc32, np.frombuffer(view[at:stop], np.uint8).reshape(-1, size)))
        if stop < len(view):
            self._extend(view[stop:])

    def finish(self) -> Checksums:
        """The checksum of each page; the last one may be shorter."""
        if self._filled:
            self._done.append(self._open)
        return np.array(self._done, np.uint32)

    def _extend(self, data: memoryview) -> None:
        self._open = crc32(data, self._open)
        self._filled += len(data)
        if self._filled == self._size:
            self._done.append(self._open)
            self._open, self._filled = 0, 0


def read_checked(
    file: LocalFile, offsets: Int64s, lengths: Int64s, checksums: Checksums, memory: Bytes
) -> list[memoryview]:
    """Fill ``memory`` with the parts of a file at these offsets, ascending, that have these checksums; where they are.

    :raises CorruptFile: they have not
    """
    parts = file.read_parts(offsets, lengths, memory)
    wrong = np.array(list(map(crc32, parts)), np.uint32) != checksums
    if wrong.any():
        raise CorruptFile(file.path, f"the checksum of the page at byte {offsets[wrong][0]} does not match")
    return parts
