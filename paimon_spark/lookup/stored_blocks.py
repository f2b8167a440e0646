"""The blocks of a sort file as they lie on disk: read, checked and unpacked, many at a time. Format: ``sort_layout``.

A batch of lookups asks for thousands of blocks all over the file. What is done for each is a few calls that ``map``
makes: one read into its place (one for neighbours) and one checksum. Blocks of one compression are unpacked together,
which with zstd costs half: it would set up its state anew for each.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.compression import LZ4, NONE, ZSTD, codec
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.sort_layout import TRAILER
from paimon_spark.rows.byte_strings import Bytes, Int64s, read_varints, rows_at

_CODECS = {NONE: "none", ZSTD: "zstd", LZ4: "lz4", 3: "lzo"}
_GREATEST_RATIO = 2**15


class StoredBlocks:
    """The blocks of one file. Every byte that it hands out was checked after it was read."""

    def __init__(self, file: LocalFile, longest: int | None) -> None:
        """The blocks of ``file``, which stays the caller's; none has a content of more than ``longest`` bytes, where
        that is known."""
        self._file = file
        self._longest = longest

    def load(self, offsets: Int64s, sizes: Int64s, room: Bytes) -> tuple[Bytes, Int64s, Int64s]:
        """The contents of the blocks at these offsets, ascending, with payloads of these sizes: memory, and where each
        begins and stops in it. It is ``room``, which holds the blocks as stored, or other memory.

        :raises CorruptFile: a block is damaged or cut off, or its content is longer than ``longest`` or than its
            payload allows
        :raises UnsupportedFeature: compressed with lzo
        :raises StorageError: the disk fails, or the file is closed
        """
        lengths = sizes + TRAILER.size
        stops = np.cumsum(lengths)
        begins = stops - lengths
        # The checksum covers the payload and the byte behind it.
        parts = self._file.read_parts(offsets, lengths, room)
        found = list(map(crc32, [part[:-4] for part in parts]))
        right = rows_at(room, stops - 4, 4).view("<u4").ravel() == np.array(found, np.uint32)
        if not right.all():
            raise self._corrupt(offsets[~right], "the checksum does not match")
        stops -= TRAILER.size
        compressions = room.take(stops)
        if not compressions.any():
            return room, begins, stops
        return self._unpack(offsets, room, begins, stops, compressions)

    def _unpack(
        self, offsets: Int64s, room: Bytes, begins: Int64s, stops: Int64s, compressions: Bytes
    ) -> tuple[Bytes, Int64s, Int64s]:
        lengths, starts = read_varints(room, begins)
        plain = compressions == NONE
        lengths[plain], starts[plain] = (stops - begins)[plain], begins[plain]
        most = _GREATEST_RATIO * (stops - begins) if self._longest is None else self._longest
        wrong = (lengths < 0) | (starts > stops) | (lengths > most)
        if wrong.any():
            raise self._corrupt(offsets[wrong], "it claims to unpack to what it cannot")
        view = room.data
        blocks = [view[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        pieces: list[memoryview | bytes | pa.Buffer] = []
        for one, rows in _groups(compressions):
            if one not in _CODECS:
                raise self._corrupt(offsets[rows], f"unknown compression {one}")
            unpacker = codec(_CODECS[one])
            if unpacker is None:
                pieces += blocks[rows]
                continue
            try:
                pieces.append(unpacker.decompress_all(blocks[rows], lengths[rows].tolist()))
            except ValueError as problem:
                raise self._corrupt(offsets[rows], str(problem)) from problem
        content = np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)
        ends = np.cumsum(lengths)
        return content, ends - lengths, ends

    def _corrupt(self, offsets: Int64s, what: str) -> CorruptFile:
        """The error for the first of these blocks, or one of them."""
        return CorruptFile(self._file.path, f"the block at byte {offsets[0]}, or one behind it: {what}")


def _groups(compressions: Bytes) -> list[tuple[int, slice]]:
    """Each run of blocks of one compression."""
    borders = np.flatnonzero(np.diff(compressions.astype(np.int16), prepend=-1, append=-1)).tolist()
    return [(int(compressions[start]), slice(start, stop)) for start, stop in pairwise(borders)]
