"""Makes blocks of a sort file of their contents, as they are stored. Format: ``sort_layout``, ``block_pieces``."""

from __future__ import annotations

import functools

import numpy as np

from paimon_spark.checksum import crc32
from paimon_spark.lookup import compression
from paimon_spark.lookup.block_pieces import BlockPieces
from paimon_spark.lookup.compression import NONE, Codec
from paimon_spark.lookup.sort_layout import TRAILER
from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, varint

_FEW_ENTRIES = 256
"""A block is cut where its pieces hold fewer entries: of shorter ones a batch of lookups wants several of most blocks,
and to cut them would make the file slower to write and larger."""


class BlockSealer:
    """Compresses blocks where a codec is given, cuts their contents into pieces where that pays, and lists these."""

    def __init__(self, codec: Codec | None) -> None:
        self._codec = codec
        self._lengths: list[int] = []
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._checksums: list[int] = []

    def one(self, offset: int, entries: memoryview, tail: bytes, count: int) -> tuple[list[bytes | memoryview], int]:
        """The data block at ``offset`` in the file, in parts, and the size of its payload; its content are ``count``
        ``entries`` and ``tail``."""
        if self._codec is None:
            return self.whole(entries, tail)
        content = memoryview(b"".join((entries, tail)))
        return self._packed(self._codec, offset, content, self._piece_size(len(content), count))

    def whole(self, entries: memoryview, tail: bytes) -> tuple[list[bytes | memoryview], int]:
        """Like :meth:`one` a block that is no data block."""
        if self._codec is None:
            return [entries, tail, _trailer(NONE, crc32(tail, crc32(entries)))], len(entries) + len(tail)
        return _sealed(self._codec, memoryview(b"".join((entries, tail))), None)[:2]

    def many(self, offset: int, blocks: Bytes, count: int) -> tuple[bytes | memoryview, Int64s]:
        """The data blocks from ``offset`` on in the file, and the sizes of their payloads. They are the rows of a
        matrix, each the content of ``count`` entries and room for a trailer."""
        width = blocks.shape[1]
        length = width - TRAILER.size
        view = blocks.reshape(-1).data
        if self._codec is None:
            _seal_plain(blocks)
            return view, np.full(len(blocks), length)
        piece_size = self._piece_size(length, count)
        sizes: list[int] = []
        stored: list[bytes | memoryview] = []
        for at in range(0, blocks.size, width):
            parts, size = self._packed(self._codec, offset, view[at : at + length], piece_size)
            stored += parts
            sizes.append(size)
            offset += size + TRAILER.size
        return b"".join(stored), np.array(sizes, np.int64)

    def paged(self, count: int) -> Mask:
        """Of which of the last ``count`` data blocks values are read by pages."""
        if self._codec is None:
            return np.ones(count, np.bool_)
        return np.array(self._lengths[-count:]) > 0

    def pieces(self) -> BlockPieces | None:
        """The pieces of all data blocks, if any has pieces."""
        if not self._sizes:
            return None
        lengths, starts, sizes = map(np.array, (self._lengths, self._starts, self._sizes))
        return BlockPieces(compression.PIECE_SIZE, lengths, starts, sizes, np.array(self._checksums, np.uint32))

    def _piece_size(self, length: int, count: int) -> int | None:
        """Of what size the pieces of a block are, None if it is not cut."""
        size = compression.PIECE_SIZE
        cut = self._codec is not None and self._codec.chains and length > size and count * size < _FEW_ENTRIES * length
        return size if cut else None

    def _packed(
        self, codec: Codec, offset: int, content: memoryview, piece_size: int | None
    ) -> tuple[list[bytes | memoryview], int]:
        parts, size, pieces = _sealed(codec, content, piece_size)
        self._lengths.append(len(content) if pieces else 0)
        self._starts.append(offset + size - sum(map(len, pieces)))
        self._sizes += map(len, pieces)
        self._checksums += map(crc32, pieces)
        return parts, size


def _sealed(
    codec: Codec, content: memoryview, piece_size: int | None
) -> tuple[list[bytes | memoryview], int, list[bytes]]:
    """A block in parts, the size of its payload, and its pieces, if it is compressed in pieces."""
    length = len(content)
    step = piece_size or length
    pieces = [codec.compress(content[at : at + step]) for at in range(0, length, step)]
    prefix, checksum = _prefix(length)
    size = len(prefix) + sum(map(len, pieces))
    if size >= length - length // 8:
        return [content, _trailer(NONE, crc32(content))], length, []
    for piece in pieces:
        checksum = crc32(piece, checksum)
    return [prefix, *pieces, _trailer(codec.identity, checksum)], size, pieces if piece_size else []


@functools.lru_cache(64)
def _prefix(length: int) -> tuple[bytes, int]:
    """What is before the compressed content of a block, and its checksum."""
    prefix = varint(length)
    return prefix, crc32(prefix)


def _seal_plain(blocks: Bytes) -> None:
    """Write the trailers of blocks, the rows of a matrix whose contents are complete, as not compressed."""
    stop = blocks.shape[1] - TRAILER.size
    blocks[:, stop] = NONE
    checksums = list(map(crc32, blocks[:, : stop + 1]))
    blocks[:, stop + 1 :] = np.array(checksums, "<u4").view(np.uint8).reshape(-1, 4)


def _trailer(identity: int, checksum: int) -> bytes:
    return TRAILER.pack(identity, crc32(bytes((identity,)), checksum))
