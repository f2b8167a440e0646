"""Codecs of lookup files: none, lz4 and zstd, with Java's framing and a bound on what comes out.

::

    lz4    int32 compressed length (without these 8 bytes) | int32 original length | LZ4 block        little-endian
    zstd   one zstd frame

Many lz4 blocks are unpacked as one lz4 frame, which is made for that::

    04 22 4D 18 | 3 bytes, see ``_FRAME_HEADS`` | (int32 length | LZ4 block) … | int32 0        little-endian

The original length is always known from outside and is the bound: a block that claims anything else, or unpacks to
more, is corrupt. The work is done with the GIL released, by pyarrow's codecs; only zstd frames are made by the zstd of
Python, which keeps its context from block to block: a third of the time for 64 KB goes into making one.

Source: ``Lz4BlockCompressor``, ``ZstdBlockCompressor``, ``CompressorUtils`` of Apache Paimon.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from paimon_spark.errors import InvalidInput, UnsupportedFeature

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NONE, ZSTD, LZ4 = 0, 1, 2
PIECE_SIZE = 16384
"""Bytes that are compressed and checked by themselves where a page or block can be cut. A smaller piece costs less to
read for one value, and more to write: 64 KB take 28 µs whole, 44 in pieces of 16 KB, 62 in pieces of 8 KB."""
_LENGTHS = struct.Struct("<ii")
_SIZE = struct.Struct("<I")
_FRAME_MAGIC = b"\x04\x22\x4d\x18"
_FRAME_HEADS = {
    2**16: b"\x60\x40\x82",
    2**18: b"\x60\x50\xfb",
    2**20: b"\x60\x60\x51",
    2**22: b"\x60\x70\x73",
}
"""By the size of its greatest block: version 1 with independent blocks, the code of that size, a checksum of both."""


class Codec(Protocol):
    """Packs and unpacks blocks; ``identity`` is its number in a sort file's block trailer. ``chains``: blocks one after
    another are a block of all their bytes, to Java too."""

    name: str
    identity: int
    chains: bool

    def compress(self, data: bytes | memoryview) -> bytes:
        """The block in Java's framing."""
        ...

    def decompress(self, block: memoryview, length: int) -> bytes | pa.Buffer:
        """The original ``length`` bytes.

        :raises ValueError: the block is damaged or has another length
        """
        ...

    def decompress_all(self, blocks: Sequence[memoryview], lengths: Sequence[int]) -> pa.Buffer:
        """The original bytes of blocks that are known to be whole, one after another; ``lengths`` is of each.

        One call for all takes half the time that one call for each takes.

        :raises ValueError: they have not these lengths in all
        """
        ...


class Lz4:
    """LZ4 blocks behind two lengths."""

    name = "lz4"
    identity = LZ4
    chains = False

    def __init__(self) -> None:
        self._codec = pa.Codec("lz4_raw")
        self._frames = pa.Codec("lz4")

    def compress(self, data: bytes | memoryview) -> bytes:
        """The block in Java's framing."""
        packed: bytes = self._codec.compress(data, asbytes=True)
        return _LENGTHS.pack(len(packed), len(data)) + packed

    def decompress(self, block: memoryview, length: int) -> pa.Buffer:
        """The original ``length`` bytes, or ValueError."""
        return _unpack(self._codec, _without_lengths(block, length), length)

    def decompress_all(self, blocks: Sequence[memoryview], lengths: Sequence[int]) -> pa.Buffer:
        """The original bytes of several blocks, as those of one lz4 frame, or ValueError."""
        bare = list(map(_without_lengths, blocks, lengths))
        greatest = max(*map(len, bare), *lengths)
        head = next((head for most, head in _FRAME_HEADS.items() if greatest <= most), None)
        if head is None:
            return pa.py_buffer(b"".join(map(self.decompress, blocks, lengths)))
        parts: list[bytes | memoryview] = [_FRAME_MAGIC, head]
        for block in bare:
            parts += (_SIZE.pack(len(block)), block)
        parts.append(_SIZE.pack(0))
        return _unpack(self._frames, memoryview(b"".join(parts)), sum(lengths))


class Zstd:
    """Single zstd frames."""

    name = "zstd"
    identity = ZSTD
    chains = True

    def __init__(self, level: int = 1) -> None:
        self._codec = pa.Codec("zstd")
        self._compressor = zstd.ZstdCompressor(level)

    def compress(self, data: bytes | memoryview) -> bytes:
        """The block as one frame."""
        frame: bytes = self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
        return frame

    def decompress(self, block: memoryview, length: int) -> pa.Buffer:
        """The original ``length`` bytes, or ValueError."""
        return _unpack(self._codec, block, length)

    def decompress_all(self, blocks: Sequence[memoryview], lengths: Sequence[int]) -> pa.Buffer:
        """The original bytes of several blocks, as those of one stream of frames, or ValueError."""
        return _unpack(self._codec, memoryview(b"".join(blocks)), sum(lengths))


def _without_lengths(block: memoryview, length: int) -> memoryview:
    if len(block) < _LENGTHS.size or _LENGTHS.unpack_from(block) != (len(block) - _LENGTHS.size, length):
        raise ValueError("the lengths before an lz4 block are wrong")
    return block[_LENGTHS.size :]


def _unpack(codec: pa.Codec, block: memoryview, length: int) -> pa.Buffer:
    try:
        return codec.decompress(pa.py_buffer(block), length)
    except (OSError, pa.ArrowException) as problem:
        raise ValueError(f"a block does not unpack to {length} bytes: {problem}") from problem


def codec(name: str, zstd_level: int = 1) -> Codec | None:
    """The codec of that name; None for ``none``.

    :raises InvalidInput: zstd has no such level
    :raises UnsupportedFeature: lzo, or no codec at all
    """
    if name == "none":
        return None
    if name == "lz4":
        return Lz4()
    if name == "zstd":
        try:
            return Zstd(zstd_level)
        except ValueError as problem:
            raise InvalidInput(str(problem)) from problem
    raise UnsupportedFeature(f"lookup files compressed with {name!r} are not supported; use none, lz4 or zstd")
