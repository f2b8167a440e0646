"""The pages of a hash file as they lie on disk: read, checked and unpacked, many at a time. Format: ``hash_layout``.

A page is here what can be read by itself: a piece of what Java takes for a page, if that was written in pieces.

A batch of lookups asks for thousands of single pages all over the file. What is done for each page is a few calls that
``map`` makes: one read into its place and one checksum. Where compressed pages have checksums they are unpacked
together, at half the price and less.
"""

from __future__ import annotations

import numpy as np

from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.compression import codec
from paimon_spark.lookup.hash_layout import PAGE_PREFIX, HashContext
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.page_checksums import read_checked
from paimon_spark.rows.byte_strings import Bytes, Int64s, rows_at


class StoredPages:
    """The pages of one file, each of ``size`` bytes when unpacked. Every byte that it hands out was checked after it
    was read."""

    def __init__(self, file: LocalFile, context: HashContext) -> None:
        """The pages of ``file``, which stays the caller's.

        :raises CorruptFile: the file has not the size or the pages that its context names
        """
        context.check(file.path)
        self._file = file
        self._codec = codec(context.compression)
        self.size = context.piece_size or context.page_size
        self._together = context.page_size // self.size
        self._length = context.length
        self._checksums = context.checksums
        self._check_size(context)
        if self._codec is not None:
            self._starts, self._sizes = self._page_places(context)

    def load(self, pages: Int64s, room: Bytes) -> Bytes:
        """The bytes of these pages, ascending, one after another: at the start of ``room`` or in memory of their own.

        :raises CorruptFile: a page is damaged or cut off
        :raises StorageError: the disk fails, or the file is closed
        """
        begins = pages * self.size
        lengths = np.minimum(begins + self.size, self._length) - begins
        if self._codec is None:
            memory = room[: int(lengths.sum())]
            self._read(pages, begins, lengths, memory)
            return memory
        begins, packed = self._starts.take(pages), self._sizes.take(pages)
        stored = np.empty(int(packed.sum()), np.uint8)
        self._read(pages, begins, packed, stored)
        return self._unpack(pages, stored, packed, lengths.tolist())

    def _read(self, pages: Int64s, begins: Int64s, lengths: Int64s, memory: Bytes) -> None:
        """Fill ``memory`` with the pages as they are stored and check them."""
        if self._checksums is None:
            self._file.read_parts(begins, lengths, memory)
        else:
            read_checked(self._file, begins, lengths, self._checksums.take(pages), memory)

    def _unpack(self, pages: Int64s, stored: Bytes, packed: Int64s, lengths: list[int]) -> Bytes:
        """The pages, of these ``lengths``, that are in ``stored``, each ``packed`` bytes long."""
        assert self._codec is not None
        try:
            ends = np.cumsum(packed)
            starts = ends - packed
            if self._together == 1:
                if int(packed.min()) < PAGE_PREFIX:
                    raise ValueError("a page has no length")
                if bool((rows_at(stored, starts, PAGE_PREFIX).view(">i4").ravel() != packed - PAGE_PREFIX).any()):
                    raise ValueError("its length is wrong")
            starts[pages % self._together == 0] += PAGE_PREFIX
            view = stored.data
            blocks = [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
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
        if self._checksums is not None and len(self._checksums) != -(-self._length // self.size):
            raise CorruptFile(self._file.path, "its context has checksums of another number of pages")

    def _page_places(self, context: HashContext) -> tuple[Int64s, Int64s]:
        """Where the compressed pages start, and how long they are."""
        if context.piece_sizes is None:
            borders = np.array([*(context.page_starts or ()), self._file.size], np.int64)
            starts, sizes = borders[:-1], np.diff(borders)
        else:
            starts, sizes = context.piece_starts(), context.piece_sizes
        whole = not (sizes < 0).any() and int(sizes.sum()) == self._file.size
        pages = -(-self._length // self.size)
        if len(sizes) != pages or not whole or (self._together > 1 and self._checksums is None):
            raise CorruptFile(self._file.path, "its context names other pages than the file has")
        return starts, sizes
