"""Avro object containers, as far as manifests need them: bounded, checked, and fast.

::

    "Obj" 0x01
    map<string, bytes>   avro.schema (JSON), avro.codec (absent = null)
    16 bytes             sync marker
    blocks:  long records | long size | size bytes, compressed by the codec | the sync marker

``long`` is a zigzag varint; a map is blocks of (long count, entries), ended by a count of 0.

The container is taken apart here and only the records go through fastavro: a block is decompressed under a bound,
and handed over as one Avro array, so that its records cost one call.

Source: the Avro 1.11 specification; ``AvroFileFormat`` and ``FieldReaderFactory`` of Apache Paimon.
"""

from __future__ import annotations

import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from paimon_spark.errors import CorruptFile, InvalidOption, UnsupportedFeature
from paimon_spark.metadata.avro_schema import Layout, match_schema

MAGIC = b"Obj\x01"
FILE_LIMIT = 256 * 2**20
BLOCK_LIMIT = 64 * 2**20
_SYNC_INTERVAL = 64_000
_CODECS = {"zstd": "zstandard", "zstandard": "zstandard", "deflate": "deflate", "none": "null", "null": "null"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Container:
    """The rows of a file. ``missing`` has the optional fields, as paths, that the file's schema lacks; ``extra``
    the schemas of its top-level fields that the layout does not know."""

    rows: Iterator[list[Row]]
    missing: frozenset[tuple[str, ...]]
    extra: tuple[Mapping[str, Any], ...]


def read_container(data: bytes, path: str, layout: Layout) -> Container:
    """The records of a container file, block by block and in order.

    :raises CorruptFile: not a container, or its schema or a block contradict the format (also while iterating)
    :raises UnsupportedFeature: a compression other than null, deflate and zstandard
    """
    cursor = _Cursor(data, path)
    if cursor.take(4) != MAGIC:
        raise CorruptFile(path, "it does not begin like an Avro file")
    header = _metadata(cursor)
    sync = cursor.take(16)
    codec = header.get("avro.codec", b"null").decode("ascii", "replace")
    if codec not in ("null", "deflate", "zstandard"):
        raise UnsupportedFeature(f"{path} is compressed by {codec!r}; null, deflate and zstandard are supported")
    try:
        schema, missing = match_schema(header.get("avro.schema", b""), layout)
    except ValueError as problem:
        raise CorruptFile(path, f"its Avro schema is not usable: {problem}") from None
    known = {*layout.required, *layout.optional}
    extra = tuple(field for field in schema.declared if field.get("name") not in known)
    return Container(_blocks(cursor, sync, codec, schema.parsed), missing, extra)


def write_container(
    schema: str, rows: Iterable[Row], compression: str, target_size: int | None = None
) -> Iterator[bytes]:
    """Container files of the rows, in order: one, or, with a ``target_size`` in bytes, a new one whenever a file has
    reached it (looked at every 1000 rows). No rows make one file without rows.

    :raises InvalidOption: ``compression`` is not one of zstd, deflate and none
    """
    from fastavro.write import Writer

    codec = codec_name(compression)
    level = 1 if codec == "zstandard" else None
    parsed = _writing_schema(schema)

    def begin() -> tuple[io.BytesIO, Any]:
        buffer = io.BytesIO()
        # Tuples are arrays here, and not fastavro's notation for a branch of a union.
        options = {"disable_tuple_notation": True}
        return buffer, Writer(buffer, parsed, codec, _SYNC_INTERVAL, compression_level=level, options=options)

    buffer, writer = begin()
    in_file, files = 0, 0
    for row in rows:
        writer.write(row)
        in_file += 1
        if target_size is not None and in_file % 1000 == 0:
            writer.flush()
            if buffer.tell() >= target_size:
                yield buffer.getvalue()
                buffer, writer = begin()
                in_file, files = 0, files + 1
    if in_file or not files:
        writer.flush()
        yield buffer.getvalue()


def codec_name(compression: str) -> str:
    """The Avro codec for a value of ``manifest.compression``.

    :raises InvalidOption: none of zstd, deflate and none
    """
    codec = _CODECS.get(compression)
    if codec is None:
        raise InvalidOption(
            f"option 'manifest.compression' = {compression!r}: one of zstd, deflate and none is expected"
        )
    return codec


# --------------------------------------------------------------------------- container


class _Cursor:
    """A position in a file's bytes; reading past the end is a corrupt file."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise CorruptFile(self.path, f"{size} bytes are expected at {self.position}, the file has {len(self.data)}")
        part = self.data[self.position : end]
        self.position = end
        return part

    def long(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise CorruptFile(self.path, f"a number before {self.position} is too long")


def _metadata(cursor: _Cursor) -> dict[str, bytes]:
    header: dict[str, bytes] = {}
    while count := cursor.long():
        if count < 0:
            cursor.long()
        for _ in range(abs(count)):
            key = cursor.take(cursor.long()).decode("utf-8", "replace")
            header[key] = cursor.take(cursor.long())
    return header


def _blocks(cursor: _Cursor, sync: bytes, codec: str, schema: Any) -> Iterator[list[Row]]:
    from fastavro import schemaless_reader

    while cursor.position < len(cursor.data):
        start = cursor.position
        count = cursor.long()
        packed = cursor.take(cursor.long())
        if cursor.take(16) != sync:
            raise CorruptFile(cursor.path, f"the block at {start} does not end in the file's sync marker")
        try:
            block = _decompress(packed, codec)
        except Exception as problem:
            raise CorruptFile(cursor.path, f"the block at {start} does not decompress: {problem}") from None
        if not 0 <= count <= len(block):
            raise CorruptFile(cursor.path, f"the block at {start} claims {count} records in {len(block)} bytes")
        if count == 0:
            continue
        stream = io.BytesIO(_zigzag(count) + block + b"\0")
        try:
            rows: list[Row] = schemaless_reader(stream, schema, None)
        except Exception as problem:
            raise CorruptFile(cursor.path, f"the block at {start} does not decode: {problem!r}") from None
        if stream.read(1):
            raise CorruptFile(cursor.path, f"the block at {start} has bytes after its last record")
        yield rows


def _decompress(packed: bytes, codec: str) -> bytes:
    """The block's bytes, at most BLOCK_LIMIT of them."""
    if codec == "null":
        block = packed
    elif codec == "deflate":
        inflate = zlib.decompressobj(-15)
        block = inflate.decompress(packed, BLOCK_LIMIT + 1)
        if len(block) <= BLOCK_LIMIT and not inflate.eof:
            raise ValueError("it is cut off")
    else:
        block = _unzstd(packed)
    if len(block) > BLOCK_LIMIT:
        raise ValueError(f"it has more than {BLOCK_LIMIT} bytes")
    return block


def _unzstd(packed: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    decompressor = zstd.ZstdDecompressor()
    block: bytes = decompressor.decompress(packed, BLOCK_LIMIT + 1)
    if len(block) <= BLOCK_LIMIT and not decompressor.eof:
        raise ValueError("it is cut off")
    return block


def _zigzag(count: int) -> bytes:
    value, out = count << 1, bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=16)
def _writing_schema(text: str) -> Any:
    from fastavro import parse_schema

    return parse_schema(json.loads(text))
