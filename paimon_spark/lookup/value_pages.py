"""The pages by which values of a sort file are read alone, many at once, for ``page_cache``: checked and unpacked.

Of a file without compression a page is what the sidecar has a checksum of. Of a compressed one it is a piece of a
block: the pages of all blocks with pieces lie one after another, and each block begins with a page of its own.
"""

from __future__ import annotations

import functools

import numpy as np

from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.block_pieces import BlockPieces
from paimon_spark.lookup.compression import Zstd
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.page_checksums import PAGE_SIZE, read_checked
from paimon_spark.lookup.sidecar import Checksums
from paimon_spark.rows.byte_strings import Bytes, Int64s


class PlainPages:
    """The pages of the data blocks of a file without compression: their addresses are places in the file."""

    def __init__(
        self, file: LocalFile, length: int, checksums: Checksums, offsets: Int64s, block_lengths: Int64s
    ) -> None:
        """The first ``length`` bytes of ``file``, data blocks at ``offsets`` with contents of these lengths.

        :raises CorruptFile: there are checksums of another number of pages
        """
        self._file = file
        self._checksums = checksums
        self.size = PAGE_SIZE
        self.length = length
        self.begins = offsets
        self.block_lengths = block_lengths
        if len(checksums) != -(-length // PAGE_SIZE):
            raise CorruptFile(file.path, "its context has checksums of another number of pages")

    def load(self, pages: Int64s, room: Bytes) -> Bytes:
        """The bytes of these pages, ascending, one after another, in ``room``: checked."""
        begins = pages * PAGE_SIZE
        lengths = np.minimum(begins + PAGE_SIZE, self.length) - begins
        memory = room[: int(lengths.sum())]
        read_checked(self._file, begins, lengths, self._checksums.take(pages), memory)
        return memory

    def check_lengths(self, numbers: Int64s, lengths: Int64s) -> None:
        """Contents are in the file as they are."""


class PackedPages:
    """The pieces of the data blocks of a compressed file, each at the begin of a page of its own.

    ``begins``: the address of each block, -1 where it has no pieces; ``block_lengths``: of its content, or 0.
    """

    def __init__(self, file: LocalFile, pieces: BlockPieces, offsets: Int64s, sizes: Int64s) -> None:
        """The pieces in ``file``, of data blocks at ``offsets`` with payloads of these ``sizes``.

        :raises CorruptFile: the blocks do not end with their pieces
        """
        self._file = file
        self._codec = Zstd()
        self.block_lengths = pieces.lengths
        self._starts, self._sizes, self._checksums = pieces.piece_starts(), pieces.sizes, pieces.checksums
        self._lengths = pieces.piece_lengths()
        self.size = pieces.piece_size
        self.length = len(pieces.sizes) * self.size
        self.begins = np.where(pieces.firsts < 0, -1, pieces.firsts * self.size)
        cut = np.flatnonzero(pieces.lengths)
        wrong = len(pieces.lengths) != len(offsets) or bool((pieces.ends() != (offsets + sizes)[cut]).any())
        if wrong or bool((pieces.starts <= offsets)[cut].any()):
            raise CorruptFile(file.path, "its context names pieces of other blocks than the file has")

    def load(self, pages: Int64s, room: Bytes) -> Bytes:
        """The bytes of these pages, ascending, one after another: checked, and with zeros behind short pieces."""
        sizes = self._sizes.take(pages)
        total = int(sizes.sum())
        stored = room[:total] if total <= len(room) else np.empty(total, np.uint8)
        parts = read_checked(self._file, self._starts.take(pages), sizes, self._checksums.take(pages), stored)
        missing = self.size - self._lengths.take(pages)
        for at in np.flatnonzero(missing)[::-1].tolist():
            parts.insert(at + 1, _zeros(int(missing[at])))
        try:
            return np.frombuffer(self._codec.decompress_all(parts, [self.size] * len(pages)), np.uint8)
        except ValueError as problem:
            what = f"the piece at byte {int(self._starts[pages[0]])}, or one behind it: {problem}"
            raise CorruptFile(self._file.path, what) from problem

    def check_lengths(self, numbers: Int64s, lengths: Int64s) -> None:
        """Refuse contents of these blocks that have other ``lengths`` than their pieces.

        :raises CorruptFile: one has
        """
        expected = self.block_lengths.take(numbers)
        if bool(((expected != lengths) & (expected > 0)).any()):
            raise CorruptFile(self._file.path, "its context names pieces of other lengths than its blocks have")


@functools.lru_cache(256)
def _zeros(length: int) -> memoryview:
    """So many zeros, compressed."""
    return memoryview(Zstd().compress(bytes(length)))
