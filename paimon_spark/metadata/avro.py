"""Avro object containers, as far as manifests need them: bounded, checked, and fast.

::

    "Obj" 0x01
    map<string, bytes>   avro.schema (JSON), avro.codec (absent = null)
    16 bytes             sync marker
    blocks:  long records | long size | size bytes, compressed by the codec | the sync marker

``long`` is a zigzag varint; a map is blocks of (long count, entries), ended by a count of 0.

The container is taken apart here and only the records go through fastavro: a block is decompressed under a bound,
and handed over as one Avro array, so that its records cost one call. A block of more than MANY records, which no writer
makes, is decoded record by record, for a block of zeros would be a hundred times larger as Python objects.

Bounds of a file of manifests: FILE_LIMIT bytes, EXPANDED_LIMIT after decompression, RECORD_LIMIT records. Bounds of any
container: BLOCK_LIMIT bytes of a block after decompression (of data files DATA_BLOCK_LIMIT, because a row is never
split), HEADER_LIMIT bytes of header.

Source: the Avro 1.11 specification; ``AvroFileFormat`` and ``FieldReaderFactory`` of Apache Paimon.
"""

from __future__ import annotations

import io
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from paimon_spark.errors import CorruptFile, InvalidOption, UnsupportedFeature
from paimon_spark.metadata.avro_schema import Layout, ReadingSchema, match_schema, reading_schema

MAGIC = b"Obj\x01"
FILE_LIMIT = 256 * 2**20
EXPANDED_LIMIT = 2**30
RECORD_LIMIT = 2**21
BLOCK_LIMIT = 64 * 2**20
DATA_BLOCK_LIMIT = 200 * 2**20
HEADER_LIMIT = 2 * 2**20
MANY = 50_000
_SLACK = 2**20
_SYNC_INTERVAL = 64_000
_CODECS = {"zstd": "zstandard", "zstandard": "zstandard", "deflate": "deflate", "none": "null", "null": "null"}

Row = dict[str, Any]


class Source(Protocol):
    """Bytes from a position on."""

    def read(self, size: int, /) -> bytes:
        """The next ``size`` bytes, fewer at the end."""
        ...


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
    opened = _Opened.at(io.BytesIO(data), len(data), path)
    try:
        schema, missing = match_schema(opened.schema, layout)
    except ValueError as problem:
        raise CorruptFile(path, f"its Avro schema is not usable: {problem}") from None
    known = {*layout.required, *layout.optional}
    extra = tuple(field for field in schema.declared if field.get("name") not in known)
    return Container(_bounded(opened, schema), missing, extra)


def _bounded(opened: _Opened, schema: ReadingSchema) -> Iterator[list[Row]]:
    """The records of all blocks, as long as they are not too many."""
    records = expanded = 0
    for count, block in opened.blocks(BLOCK_LIMIT):
        records, expanded = records + count, expanded + len(block)
        if records > RECORD_LIMIT or expanded > EXPANDED_LIMIT:
            raise CorruptFile(opened.path, f"it has more than {RECORD_LIMIT} records or {EXPANDED_LIMIT} bytes of them")
        yield from opened.decode(count, block, schema)


class DataContainer:
    """A container of any records, whose blocks are read one by one from a file that may be large."""

    def __init__(self, source: Source, size: int, path: str) -> None:
        """Read the header.

        :raises CorruptFile: not a container, or its schema could make a reader run away
        :raises UnsupportedFeature: a compression other than null, deflate and zstandard
        """
        self._opened = _Opened.at(source, size, path)
        try:
            self._schema = reading_schema(self._opened.schema)
        except ValueError as problem:
            raise CorruptFile(path, f"its Avro schema is not usable: {problem}") from None

    @property
    def columns(self) -> list[str]:
        """The names of the record's fields."""
        return [field["name"] for field in self._schema.record["fields"]]

    def rows(self) -> Iterator[Row]:
        """The records in order, without logical types: a timestamp is a number, a decimal its bytes.

        :raises CorruptFile: a block contradicts the format
        """
        for count, block in self._opened.blocks(DATA_BLOCK_LIMIT):
            for rows in self._opened.decode(count, block, self._schema):
                yield from rows


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
    """A position in a file of ``size`` bytes; reading past the end is a corrupt file."""

    def __init__(self, source: Source, size: int, path: str) -> None:
        self.size = size
        self.path = path
        self.position = 0
        self._source = source

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > self.size:
            raise CorruptFile(self.path, f"{size} bytes are expected at {self.position}, the file has {self.size}")
        part = self._source.read(size)
        if len(part) != size:
            raise CorruptFile(self.path, f"{len(part)} of {size} bytes could be read at {self.position}")
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
            if cursor.position > HEADER_LIMIT:
                raise CorruptFile(cursor.path, f"its Avro header has more than {HEADER_LIMIT} bytes")
    return header


@dataclass(frozen=True)
class _Opened:
    """A container whose header has been read."""

    cursor: _Cursor
    schema: bytes
    codec: str
    sync: bytes

    @property
    def path(self) -> str:
        return self.cursor.path

    @staticmethod
    def at(source: Source, size: int, path: str) -> _Opened:
        cursor = _Cursor(source, size, path)
        if cursor.take(4) != MAGIC:
            raise CorruptFile(path, "it does not begin like an Avro file")
        header = _metadata(cursor)
        sync = cursor.take(16)
        codec = header.get("avro.codec", b"null").decode("ascii", "replace")
        if codec not in ("null", "deflate", "zstandard"):
            raise UnsupportedFeature(f"{path} is compressed by {codec!r}; null, deflate and zstandard are supported")
        return _Opened(cursor, header.get("avro.schema", b""), codec, sync)

    def blocks(self, limit: int) -> Iterator[tuple[int, bytes]]:
        """The records that each block claims, and its decompressed bytes, at most ``limit``."""
        cursor = self.cursor
        while cursor.position < cursor.size:
            start = cursor.position
            count = cursor.long()
            size = cursor.long()
            if size > limit + _SLACK:
                raise CorruptFile(cursor.path, f"the block at {start} has {size} bytes, more than {limit}")
            packed = cursor.take(size)
            if cursor.take(16) != self.sync:
                raise CorruptFile(cursor.path, f"the block at {start} does not end in the file's sync marker")
            try:
                block = _decompress(packed, self.codec, limit)
            except Exception as problem:
                raise CorruptFile(cursor.path, f"the block at {start} does not decompress: {problem}") from None
            if not min(len(block), 1) <= count <= len(block):
                raise CorruptFile(cursor.path, f"the block at {start} claims {count} records in {len(block)} bytes")
            yield count, block

    def decode(self, count: int, block: bytes, schema: ReadingSchema) -> Iterator[list[Row]]:
        """The records of the block that was read last, in lists of at most MANY."""
        from fastavro import schemaless_reader

        def decoded(number: int) -> list[Row]:
            if number == count:
                rows: list[Row] = schemaless_reader(stream, schema.array, None)
                return rows
            return [schemaless_reader(stream, schema.root, None) for _ in range(number)]

        stream = io.BytesIO(_zigzag(count) + block + b"\0" if count <= MANY else block)
        for start in range(0, count, MANY):
            rows = self._checked(decoded, min(MANY, count - start))
            if start + MANY >= count and stream.read(1):
                raise CorruptFile(
                    self.path, f"the block that ends at {self.cursor.position} has bytes after its last record"
                )
            yield rows

    def _checked(self, decode: Callable[[int], list[Row]], number: int) -> list[Row]:
        try:
            return decode(number)
        except Exception as problem:
            raise CorruptFile(
                self.path, f"the block that ends at {self.cursor.position} does not decode: {problem!r}"
            ) from None


def _decompress(packed: bytes, codec: str, limit: int) -> bytes:
    """The block's bytes, at most ``limit`` of them."""
    if codec == "null":
        block = packed
    elif codec == "deflate":
        inflate = zlib.decompressobj(-15)
        block = inflate.decompress(packed, limit + 1)
        if len(block) <= limit and not inflate.eof:
            raise ValueError("it is cut off")
    else:
        block = _unzstd(packed, limit)
    if len(block) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    return block


def _unzstd(packed: bytes, limit: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    decompressor = zstd.ZstdDecompressor()
    block: bytes = decompressor.decompress(packed, limit + 1)
    if len(block) <= limit and not decompressor.eof:
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
