"""ParquetOutput: one parquet file being written, in the dialect that every Java release of Paimon reads.

Data pages of version 1 with checksums; values PLAIN or dictionary encoded (Java 0.9 knows nothing else); decimals of
up to 18 digits as INT32 / INT64; TIMESTAMP up to 3 digits in milliseconds, up to 6 in microseconds, beyond as INT96.
A page index, as Java writes it too: by the bounds of the pages, Spark and Java leave out those that a filter excludes.

Arrow has one INT96 switch for a whole file, so a table with timestamps of more than 6 digits can be written only
when all of its timestamps are such.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import InvalidInput, InvalidOption, PaimonError, UnsupportedFeature
from paimon_spark.files.physical import leaf_columns
from paimon_spark.options import (
    FILE_BLOCK_SIZE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    KB,
    MB,
    ZSTD_LEVEL,
    Option,
    Options,
    parse_bool,
    parse_memory,
)
from paimon_spark.types import TIMESTAMPS, DataField, DataType

PARQUET_BLOCK_SIZE: Option[int] = Option("parquet.block.size", 128 * MB, parse_memory)
PARQUET_PAGE_SIZE: Option[int] = Option("parquet.page.size", MB, parse_memory)
PARQUET_DICTIONARY: Option[bool] = Option("parquet.enable.dictionary", True, parse_bool)

_CODECS = {
    "none": "NONE",
    "uncompressed": "NONE",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "zstd": "ZSTD",
    "lz4": "LZ4",
    "lz4_raw": "LZ4",
}
_SAMPLE = 4096
_REPEATING = 0.75


@dataclass(frozen=True)
class ParquetSettings:
    """What decides the bytes of a file, given its rows. ``codec`` is the option's text."""

    codec: str
    zstd_level: int
    block_size: int
    page_size: int
    dictionary: bool
    int96: bool

    @classmethod
    def of(cls, fields: Sequence[DataField], options: Options, level: int) -> ParquetSettings:
        """The settings of a table's files of one level.

        :raises InvalidOption: a codec that Java cannot read
        :raises UnsupportedFeature: timestamps of more than 6 digits beside others
        """
        codec = options.get_option(FILE_COMPRESSION_PER_LEVEL).get(level, options.get_option(FILE_COMPRESSION))
        if codec not in _CODECS:
            known = ", ".join(_CODECS)
            raise InvalidOption(
                f"option {FILE_COMPRESSION.key!r} (level {level}) = {codec!r}: one of {known} is expected"
            )
        block = options.get_option(FILE_BLOCK_SIZE)
        return cls(
            codec,
            options.get_option(ZSTD_LEVEL),
            max(options.get_option(PARQUET_BLOCK_SIZE) if block is None else block, KB),
            max(options.get_option(PARQUET_PAGE_SIZE), KB),
            options.get_option(PARQUET_DICTIONARY),
            _needs_int96(fields),
        )


def _needs_int96(fields: Sequence[DataField]) -> bool:
    long = {f.name for f in fields if any(p > 6 for p in _timestamp_precisions(f.type))}
    short = {f.name for f in fields if any(p <= 6 for p in _timestamp_precisions(f.type))}
    if long and short:
        raise UnsupportedFeature(
            f"TIMESTAMP of more than 6 digits (column {', '.join(sorted(long))}) cannot be written beside shorter ones "
            f"(column {', '.join(sorted(short))}); declare the former as TIMESTAMP(6)"
        )
    return bool(long)


def _timestamp_precisions(type_: DataType) -> Iterator[int]:
    if type_.root in TIMESTAMPS:
        yield type_.precision or 0
    for inner in (type_.key, type_.element, *(f.type for f in type_.fields)):
        if inner is not None:
            yield from _timestamp_precisions(inner)


class ParquetOutput:
    """A parquet file under way. Each :meth:`write` makes one row group.

    ``plain`` names the columns whose values hardly repeat; they get no dictionary. Of the others, a sample of the
    first row group decides, because a dictionary that does not pay costs as much time as the values themselves.
    """

    def __init__(self, stream: BinaryIO, schema: pa.Schema, settings: ParquetSettings, plain: frozenset[str]) -> None:
        self._stream = stream
        self._schema = schema
        self._settings = settings
        self._plain = plain
        self._sink = pa.PythonFile(stream, mode="w")
        self._writer: pq.ParquetWriter | None = None

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._stream.tell())

    def write(self, table: pa.Table) -> None:
        """Append a row group.

        Requires: ``table`` is not empty and has the schema of the file.

        :raises InvalidInput: a null in a NOT NULL column
        """
        if self._writer is None:
            self._writer = self._open(table)
        try:
            self._writer.write_table(table, row_group_size=table.num_rows)
        except pa.ArrowInvalid as problem:
            raise InvalidInput(f"the rows do not fit the table: {problem}") from None

    def close(self) -> int:
        """Write the footer, make the file durable and return its size. Requires: something was written."""
        assert self._writer is not None
        self._writer.close()
        size = self.size
        self._stream.close()
        return size

    def discard(self) -> None:
        """Let go of the file whatever state it is in; what it holds is of no use."""
        for close in (self._writer.close if self._writer is not None else None, self._stream.close):
            if close is not None:
                with contextlib.suppress(PaimonError, pa.ArrowException, OSError, ValueError):
                    close()

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        settings = self._settings
        codec = _CODECS[settings.codec]
        repeating = {c for c in self._schema.names if self._repeats(c, first.column(c))}
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            version="2.6",
            data_page_version="1.0",
            compression=codec,
            compression_level=settings.zstd_level if codec == "ZSTD" else None,
            use_dictionary=[path for column, path in leaf_columns(self._schema) if column in repeating],
            data_page_size=settings.page_size,
            use_deprecated_int96_timestamps=settings.int96,
            store_decimal_as_integer=True,
            write_page_checksum=True,
            write_page_index=True,
            store_schema=False,
        )

    def _repeats(self, name: str, column: pa.ChunkedArray) -> bool:
        if not self._settings.dictionary or name in self._plain or pa.types.is_boolean(column.type):
            return False
        if pa.types.is_nested(column.type):
            return True
        rows = np.unique(np.linspace(0, len(column) - 1, min(_SAMPLE, len(column)), dtype=np.int64))
        sample = column.take(to_arrow(rows)).drop_null()
        return len(sample) == 0 or pc.count_distinct(sample).as_py() <= _REPEATING * len(sample)
