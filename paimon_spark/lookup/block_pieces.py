"""The pieces of a sort file's compressed blocks: what of them can be read by itself, and how the sidecar says it.

The compressed content of a block may be *pieces*, one after another: each 16 KB of the content, the last one less,
compressed on their own. To Java, and to whoever does not know of them, they are one content. Behind the checksum of the
tail the sidecar has, as numbers of 32 bits, the low half first where they have 64::

    for each block     length of its content, 0 if it has no pieces
    for each block     64 bits: where its first piece starts in the file
    for each piece     its size in the file
    for each piece     CRC-32 of those bytes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.lookup.sidecar import Checksums
from paimon_spark.rows.byte_strings import Int64s


@dataclass(frozen=True)
class BlockPieces:
    """The pieces of a file's blocks, each of ``piece_size`` bytes of content or, the last of a block, less.

    ``lengths`` are those of the blocks' contents, 0 where a block has no pieces, and ``starts`` where their first
    pieces start in the file. ``sizes`` are those of the pieces in the file, ``checksums`` their CRC-32.
    """

    piece_size: int
    lengths: Int64s
    starts: Int64s
    sizes: Int64s
    checksums: Checksums

    def numbers(self) -> Checksums:
        """All but ``piece_size`` in their form in the sidecar."""
        lengths, sizes = self.lengths.astype(np.uint32), self.sizes.astype(np.uint32)
        return np.concatenate((lengths, self.starts.astype("<i8").view("<u4"), sizes, self.checksums))

    @staticmethod
    def from_numbers(piece_size: int, blocks: int, numbers: Checksums) -> BlockPieces:
        """The pieces of so many blocks that the sidecar has as ``numbers``.

        :raises ValueError: there are not as many numbers as the blocks need
        """
        lengths, starts, rest = np.split(numbers, (blocks, 3 * blocks))
        sizes, checksums = np.split(rest, 2)
        found = BlockPieces(
            piece_size,
            lengths.astype(np.int64),
            np.ascontiguousarray(starts).view("<i8").astype(np.int64),
            sizes.astype(np.int64),
            checksums,
        )
        if len(lengths) != blocks or piece_size <= 0 or int(found.counts.sum()) != len(sizes):
            raise ValueError(f"{blocks} blocks have not {len(sizes)} pieces of {piece_size} bytes")
        return found

    @property
    def counts(self) -> Int64s:
        """How many pieces each block has."""
        counts: Int64s = -(-self.lengths // self.piece_size)
        return counts

    @property
    def firsts(self) -> Int64s:
        """The number of each block's first piece; -1 where it has none."""
        counts = self.counts
        return np.where(counts > 0, np.cumsum(counts) - counts, -1)

    def piece_lengths(self) -> Int64s:
        """The length of each piece's content."""
        lengths = np.full(len(self.sizes), self.piece_size)
        cut = self.counts > 0
        lengths[np.cumsum(self.counts[cut]) - 1] -= (-self.lengths % self.piece_size)[cut]
        return lengths

    def piece_starts(self) -> Int64s:
        """Where each piece starts in the file."""
        before = np.cumsum(self.sizes) - self.sizes
        cut = self.counts > 0
        moved = self.starts[cut] - before.take(self.firsts[cut])
        starts: Int64s = before + np.repeat(moved, self.counts[cut])
        return starts

    def ends(self) -> Int64s:
        """Where the last piece of each block that has pieces ends in the file."""
        ends: Int64s = (self.piece_starts() + self.sizes).take(np.cumsum(self.counts[self.counts > 0]) - 1)
        return ends
