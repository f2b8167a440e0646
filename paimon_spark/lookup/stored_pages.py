"""The pages of a hash file as they lie on disk: read, checked and unpacked, many at a time. Format: ``hash_layout``.

A batch of lookups asks for thousands of single pages all over the file. What is done for each page is a few calls that
``map`` makes: one read into its place and one checksum. Where compressed pages have checksums they are unpacked
together, at half the price.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.compression import codec
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.rows.byte_strings import Bytes, Int64s

_PAGE_LENGTH = struct.Struct(">i")


class StoredPages:
    """The pages of one file. Every byte that it hands out was checked after it was read."""

    def __init__(self, file: LocalFile, context: HashContext) -> None:
        """The pages of ``file``, which stays the caller's.

        :raises CorruptFile: the file has not the size or the pages that its context names
        """
        self._file = file
        context.check(file.path)
        self._codec = codec(context.compression)
        self._size = context.page_size
        self._length = context.length
        self._checksums = context.checksums
        self._check_size(context)
        self._starts = self._page_starts(context)

    def load(self, pages: Int64s, room: Bytes) -> Bytes:
        """The bytes of these pages, ascending, one after another: at the start of ``room`` or in memory of their own.

        :raises CorruptFile: a page is damaged or cut off
        :raises StorageError: the disk fails, or the file is closed
        """
        begins = pages * self._size
        lengths = np.minimum(begins + self._size, self._length) - begins
        if self._codec is None:
            memory = room[: int(lengths.sum())]
            self._read(pages, begins, lengths, memory)
            return memory
        begins = self._starts.take(pages)
        packed = self._starts.take(pages + 1) - begins
        stored = np.empty(int(packed.sum()), np.uint8)
        parts = self._read(pages, begins, packed, stored)
        return self._unpack(pages, parts, lengths.tolist())

    def _read(self, pages: Int64s, begins: Int64s, lengths: Int64s, memory: Bytes) -> list[memoryview]:
        """Fill ``memory`` with the pages as they are stored and check them; the memory of each."""
        view = memory.data
        borders = [0, *np.cumsum(lengths).tolist()]
        parts = [view[start:stop] for start, stop in pairwise(borders)]
        # Neighbours are read at once.
        firsts = np.flatnonzero(begins[1:] != (begins + lengths)[:-1]) + 1
        if len(firsts) + 1 == len(parts):
            self._file.read_each(begins.tolist(), parts)
        else:
            cuts = [0, *firsts.tolist(), len(parts)]
            spans = [view[borders[start] : borders[stop]] for start, stop in pairwise(cuts)]
            self._file.read_each(begins[cuts[:-1]].tolist(), spans)
        if self._checksums is not None:
            expected = self._checksums.take(pages).tolist()
            found = list(map(crc32, parts))
            if found != expected:
                at = next(i for i, (one, other) in enumerate(zip(found, expected, strict=True)) if one != other)
                raise CorruptFile(self._file.path, f"the checksum of page {int(pages[at])} does not match")
        return parts

    def _unpack(self, pages: Int64s, parts: list[memoryview], lengths: list[int]) -> Bytes:
        """The pages, of these ``lengths``, that are packed in ``parts``."""
        assert self._codec is not None
        try:
            blocks = [_block(part) for part in parts]
            if self._checksums is not None:
                return np.frombuffer(self._codec.decompress_all(blocks, lengths), np.uint8)
            # Unpacked together, one damaged block could pass for another's bytes.
            return np.frombuffer(b"".join(map(self._codec.decompress, blocks, lengths)), np.uint8)
        except ValueError as problem:
            some = f"page {int(pages[0])}" if len(pages) == 1 else f"one of the pages {int(pages[0])}–{int(pages[-1])}"
            raise CorruptFile(self._file.path, f"{some}: {problem}") from problem

    def _check_size(self, context: HashContext) -> None:
        expected = context.length if context.file_size is None and self._codec is None else context.file_size
        if expected is not None and self._file.size != expected:
            raise CorruptFile(self._file.path, f"it has {self._file.size} bytes, not {expected}")
        pages = -(-context.length // context.page_size)
        if context.checksums is not None and len(context.checksums) != pages:
            raise CorruptFile(self._file.path, "its context has checksums of another number of pages")

    def _page_starts(self, context: HashContext) -> Int64s:
        """Where the compressed pages start, and where the last one ends."""
        if self._codec is None:
            return np.empty(0, np.int64)
        starts = np.array([*(context.page_starts or ()), self._file.size], np.int64)
        pages = -(-context.length // context.page_size)
        if len(starts) != pages + 1 or bool((np.diff(starts) < 0).any()) or (pages and starts[0]):
            raise CorruptFile(self._file.path, "its context names other pages than the file has")
        return starts


def _block(stored: memoryview) -> memoryview:
    """The compressed bytes of a stored page."""
    if len(stored) < _PAGE_LENGTH.size or _PAGE_LENGTH.unpack_from(stored)[0] != len(stored) - _PAGE_LENGTH.size:
        raise ValueError("its length is wrong")
    return stored[_PAGE_LENGTH.size :]
