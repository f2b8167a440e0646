"""RollingWriter: sorted rows become data files of about the target size, with exact metadata."""

from __future__ import annotations

import calendar
import time
import uuid
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import UnsupportedFeature
from paimon_spark.files.key_values import KeyValues, concat
from paimon_spark.files.parquet_output import ParquetOutput, ParquetSettings
from paimon_spark.files.physical import KEY_PREFIX, SEQUENCE_NUMBER, physical_schema, physical_table
from paimon_spark.files.statistics import (
    FULL_MODE,
    ColumnStatistics,
    serialize_statistics,
    statistics_modes,
)
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import (
    DATA_FILE_PREFIX,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    SUFFIX_INCLUDES_COMPRESSION,
    TARGET_FILE_SIZE,
    THIN_MODE,
    Options,
)
from paimon_spark.rows.binary_row import serialize
from paimon_spark.storage.storage import Storage

MAX_GROUP_ROWS = 2**20
MIN_GROUP_ROWS = 1000
_FULL_ENOUGH = 15 / 16
_SMALLEST_CHUNK = 4096


@dataclass
class _OpenFile:
    """A file under way and what is known of its rows so far."""

    name: str
    output: ParquetOutput
    keys: list[ColumnStatistics]
    columns: list[ColumnStatistics]
    first: pa.Table
    last: pa.Table
    row_count: int = 0
    delete_row_count: int = 0
    arrow_bytes: int = 0
    min_sequence: int = 2**63 - 1
    max_sequence: int = -(2**63)


class RollingWriter:
    """Writes the rows of one bucket and level; a new file begins whenever one reaches ``target-file-size``.

    Rows are collected into row groups of up to 2**20 rows or ``parquet.block.size`` bytes of Arrow data, or as many
    as the file has room for, judged by how well its row groups compressed so far. A file has at least 1000 rows,
    whatever the target, unless no more rows come.

    Requires: rows come in key order, each key once, over all calls of :meth:`write`.
    Ends with either :meth:`close` or :meth:`abort`; the latter is right after any error, too.

    :raises UnsupportedFeature: the table's files of this level are not parquet
    :raises InvalidOption: an option of the table has a wrong value
    """

    def __init__(
        self, storage: Storage, directory: str, schema: TableSchema, options: Options, level: int, source: int
    ) -> None:
        format_ = options.get_option(FILE_FORMAT_PER_LEVEL).get(level, options.get_option(FILE_FORMAT))
        if format_ != "parquet":
            raise UnsupportedFeature(f"{directory}: files of format {format_!r} are read, but only parquet is written")
        self._storage = storage
        self._directory = directory
        self._schema = schema
        self._level = level
        self._source = source
        self._settings = ParquetSettings.of(schema.fields, options, level)
        self._stored_keys = () if options.get_option(THIN_MODE) else tuple(schema.key_fields)
        self._physical = physical_schema(schema.fields, self._stored_keys)
        self._modes = statistics_modes(schema.fields, options)
        self._target = options.get_option(TARGET_FILE_SIZE)
        codec = f".{self._settings.codec}" if options.get_option(SUFFIX_INCLUDES_COMPRESSION) else ""
        self._name = f"{options.get_option(DATA_FILE_PREFIX)}{uuid.uuid4()}-{{}}{codec}.parquet"
        self._pending: list[KeyValues] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._compression = 1.0
        self._file: _OpenFile | None = None
        self._created: list[str] = []
        self._finished: list[DataFile] = []

    def write(self, rows: KeyValues) -> None:
        """Append rows; see the class for their order.

        :raises InvalidInput: a null in a NOT NULL column
        """
        if len(rows) == 0:
            return
        self._pending.append(rows)
        self._pending_rows += len(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_rows < self._next_group():
            return
        rows, start = concat(self._pending), 0
        while len(rows) - start >= (count := self._next_group()):
            self._write_group(rows.slice(start, start + count))
            start += count
        rest = rows.slice(start, len(rows))
        self._pending, self._pending_rows, self._pending_bytes = [rest], len(rest), rest.nbytes

    def close(self) -> list[DataFile]:
        """Finish the last file and describe all of them, in key order."""
        if self._pending_rows:
            self._write_group(concat(self._pending))
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._file is not None:
            self._finish(self._file)
        return self._finished

    def abort(self) -> None:
        """Delete every file that this writer made. May be called at any time, also twice."""
        if self._file is not None:
            self._file.output.discard()
            self._file = None
        self._pending, self._finished = [], []
        while self._created:
            self._storage.delete(f"{self._directory}/{self._created[-1]}")
            self._created.pop()

    def _next_group(self) -> int:
        """How many of the pending rows make the next row group."""
        if self._pending_rows == 0:
            return 1
        written = self._file.output.size if self._file is not None else 0
        room = (self._target - written) / self._compression
        bytes_per_row = max(self._pending_bytes / self._pending_rows, 1.0)
        rows = int(min(room, self._settings.block_size) / bytes_per_row)
        return min(max(rows, MIN_GROUP_ROWS), MAX_GROUP_ROWS)

    def _write_group(self, rows: KeyValues) -> None:
        schema = self._schema
        table = physical_table(rows, schema.fields, self._stored_keys, self._physical)
        if max(c.num_chunks for c in table.columns) * _SMALLEST_CHUNK > table.num_rows:
            table = table.combine_chunks()
        file = self._file
        if file is None:
            file = self._file = self._open(rows)
        file.output.write(table)
        self._describe(file, rows)
        self._compression = max(file.output.size / max(file.arrow_bytes, 1), 1e-3)
        if file.output.size >= self._target * _FULL_ENOUGH:
            self._finish(file)

    def _open(self, rows: KeyValues) -> _OpenFile:
        name = self._name.format(len(self._created))
        self._created.append(name)  # before it is: a creation that fails may have left the file
        stream = self._storage.create(f"{self._directory}/{name}")
        keys = self._schema.key_fields
        plain = {SEQUENCE_NUMBER, *(f.name for f in keys), *(KEY_PREFIX + f.name for f in keys)}
        first = rows.values.slice(0, 1)
        return _OpenFile(
            name,
            ParquetOutput(stream, self._physical, self._settings, frozenset(plain)),
            [ColumnStatistics(f.type, FULL_MODE) for f in keys],
            [ColumnStatistics(f.type, mode) for f, mode in zip(self._schema.fields, self._modes, strict=True)],
            first,
            first,
        )

    def _describe(self, file: _OpenFile, rows: KeyValues) -> None:
        assert rows.sequence is not None
        values = rows.values
        keys = values.select([f.name for f in self._schema.key_fields])
        for statistics, field in zip(file.keys, self._schema.key_fields, strict=True):
            statistics.update(values.column(field.name))
        for statistics, field in zip(file.columns, self._schema.fields, strict=True):
            statistics.update(values.column(field.name))
        if file.row_count == 0:
            file.first = keys.take(to_arrow(np.array([0])))
        file.last = keys.take(to_arrow(np.array([len(rows) - 1])))
        file.row_count += len(rows)
        retracts = rows.is_retract()
        file.delete_row_count += 0 if retracts is None else int(np.count_nonzero(retracts))
        file.arrow_bytes += rows.nbytes
        file.min_sequence = min(file.min_sequence, int(rows.sequence.min()))
        file.max_sequence = max(file.max_sequence, int(rows.sequence.max()))

    def _finish(self, file: _OpenFile) -> None:
        size = file.output.close()
        self._file = None
        keys = self._schema.key_fields
        ends = pa.concat_tables([file.first, file.last])
        types = [f.type for f in keys]
        min_key, max_key = serialize([ends.column(f.name) for f in keys], types)
        self._finished.append(
            DataFile(
                name=file.name,
                size=size,
                row_count=file.row_count,
                min_key=min_key,
                max_key=max_key,
                key_stats=serialize_statistics(types, file.keys),
                value_stats=serialize_statistics([f.type for f in self._schema.fields], file.columns),
                min_sequence=file.min_sequence,
                max_sequence=file.max_sequence,
                schema_id=self._schema.id,
                level=self._level,
                creation_millis=local_millis(),
                delete_row_count=file.delete_row_count,
                source=self._source,
            )
        )


def local_millis() -> int:
    """The local wall clock in milliseconds, as if it were UTC: what Java stores as creation time."""
    now = time.time()
    return calendar.timegm(time.localtime(now)) * 1000 + int(now * 1000) % 1000
