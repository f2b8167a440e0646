"""Codecs of lookup files: none, lz4 and zstd, with Java's framing and a bound on what comes out.

::

    lz4    int32 compressed length (without these 8 bytes) | int32 original length | LZ4 block        little-endian
    zstd   one zstd frame

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

from paimon_spark.errors import UnsupportedFeature

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NONE, ZSTD, LZ4 = 0, 1, 2
_LENGTHS = struct.Struct("<ii")


class Codec(Protocol):
    """Packs and unpacks one block; ``identity`` is its number in a sort file's block trailer."""

    name: str
    identity: int

    def compress(self, data: bytes | memoryview) -> bytes:
        """The block in Java's framing."""
        ...

    def decompress(self, block: memoryview, length: int) -> bytes | pa.Buffer:
        """The original ``length`` bytes.

        :raises ValueError: the block is damaged or has another length
        """
        ...

    def decompress_all(self, blocks: Sequence[memoryview], lengths: Sequence[int]) -> bytes | pa.Buffer:
        """The original bytes of several blocks, which are known to be undamaged, one after another.

        :raises ValueError: they have another length
        """
        ...


class Lz4:
    """LZ4 blocks behind two lengths."""

    name = "lz4"
    identity = LZ4

    def __init__(self) -> None:
        self._codec = pa.Codec("lz4_raw")

    def compress(self, data: bytes | memoryview) -> bytes:
        """The block in Java's framing."""
        packed: bytes = self._codec.compress(data, asbytes=True)
        return _LENGTHS.pack(len(packed), len(data)) + packed

    def decompress(self, block: memoryview, length: int) -> pa.Buffer:
        """The original ``length`` bytes, or ValueError."""
        if len(block) < _LENGTHS.size or _LENGTHS.unpack(block[: _LENGTHS.size]) != (
            len(block) - _LENGTHS.size,
            length,
        ):
            raise ValueError("the lengths before an lz4 block are wrong")
        return _unpack(self._codec, block[_LENGTHS.size :], length)

    def decompress_all(self, blocks: Sequence[memoryview], lengths: Sequence[int]) -> bytes:
        """The original bytes of several blocks, or ValueError."""
        return b"".join(map(self.decompress, blocks, lengths))


class Zstd:
    """Single zstd frames."""

    name = "zstd"
    identity = ZSTD

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
        """The original bytes of several blocks, or ValueError.

        Frames may follow one another in one stream. A call of Arrow's makes its state anew, which takes longer than to
        unpack 64 KB.
        """
        return _unpack(self._codec, memoryview(b"".join(blocks)), sum(lengths))


def _unpack(codec: pa.Codec, block: memoryview, length: int) -> pa.Buffer:
    try:
        return codec.decompress(pa.py_buffer(block), length)
    except (OSError, pa.ArrowException) as problem:
        raise ValueError(f"a block does not unpack to {length} bytes: {problem}") from problem


def codec(name: str, zstd_level: int = 1) -> Codec | None:
    """The codec of that name; None for ``none``.

    :raises UnsupportedFeature: lzo, or no codec at all
    """
    if name == "none":
        return None
    if name == "lz4":
        return Lz4()
    if name == "zstd":
        return Zstd(zstd_level)
    raise UnsupportedFeature(f"lookup files compressed with {name!r} are not supported; use none, lz4 or zstd")
