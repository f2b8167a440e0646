"""The rows of a data file, held against everything that its manifest entry says of them.

A file is read once, batch by batch, all columns, so that damage anywhere in it shows. Each kind of breach is named
once a file, where it first occurs.

Tolerated, because Java writes it and no reader minds:

* The key bounds of a compacted file may be wider than its keys: Java 0.9 takes them before it drops deletes.
* Java pads the CHAR values in the statistics of ORC files with blanks, but not the values.
* Thin files have no ``_KEY_`` columns.
* Under ``sequence.snapshot-ordering`` the entries of new files have snapshot ids for sequence numbers.
* Files of postponed buckets are in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.places import Places
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.physical import KEY_PREFIX
from paimon_spark.files.reader import read_data_file
from paimon_spark.files.statistics import ColumnStatistics, StatisticsMode, column_statistics
from paimon_spark.merge.keys import normalize
from paimon_spark.metadata.data_file import APPEND
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.paths import POSTPONE_BUCKET
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import BUCKET_FUNCTION, READ_BATCH_SIZE, parse_bool
from paimon_spark.rows.binary_row import decode
from paimon_spark.rows.bucket import assign_buckets
from paimon_spark.types import NESTED, DataField

_KEY_COPY_ID = 1 << 40
"""Added to a column's id to make one for its ``_KEY_`` copy, which is not a column of the table."""


def check_file_rows(places: Places, entry: ManifestEntry) -> list[Breach]:
    """The breaches that reading a data file shows. Requires: the file's schema exists."""
    metadata, options = places.metadata, places.schema.options
    written = metadata.schemas.get(entry.file.schema_id)
    copies = tuple(DataField(_KEY_COPY_ID + f.id, KEY_PREFIX + f.name, f.type) for f in written.key_fields)
    fields = (*written.fields, *copies)
    rows = _FileRows(places, entry, written.with_options(options))
    path = places.data_file(entry)
    try:
        for batch in read_data_file(
            metadata.storage,
            path,
            entry.file,
            data_schema=TableSchema(
                written.id, fields, written.highest_field_id, written.partition_keys, written.primary_keys, options
            ),
            fields=fields,
            batch_rows=options.get_option(READ_BATCH_SIZE),
        ):
            rows.take(batch)
        rows.finish()
    except (CorruptFile, NotFound) as problem:
        return [places.breach(problem, path), *rows.breaches]
    return rows.breaches


class _FileRows:
    """Takes the batches of one file in order; ``breaches`` has what did not fit."""

    def __init__(self, places: Places, entry: ManifestEntry, schema: TableSchema) -> None:
        self._places = places
        self._entry = entry
        self._schema = schema
        self._found: dict[Kind, Breach] = {}
        self._rows = 0
        self._retracts = 0
        self._sequence: tuple[int, int] | None = None
        self._first: pa.Table | None = None
        self._last: pa.Table | None = None
        self._statistics = [
            ColumnStatistics(f.type, StatisticsMode(counts=True, bounds=f.type.root not in NESTED))
            for f in schema.fields
        ]

    @property
    def breaches(self) -> list[Breach]:
        """What was found so far."""
        return list(self._found.values())

    def take(self, rows: KeyValues) -> None:
        """The next batch; it has the columns of the table and the ``_KEY_`` copies."""
        values = rows.values
        keys = values.select(self._key_names)
        self._check_order(keys)
        self._check_copies(values)
        self._check_nulls(values)
        self._check_bucket(values)
        self._check_partition(values)
        assert rows.sequence is not None
        least, greatest = int(rows.sequence.min()), int(rows.sequence.max())
        before = self._sequence or (least, greatest)
        self._sequence = (min(before[0], least), max(before[1], greatest))
        retracts = rows.is_retract()
        self._retracts += 0 if retracts is None else int(retracts.sum())
        for statistics, field in zip(self._statistics, self._schema.fields, strict=True):
            statistics.update(values.column(field.name))
        self._rows += len(rows)
        self._first = keys.slice(0, 1) if self._first is None else self._first
        self._last = keys.slice(len(keys) - 1)

    def finish(self) -> None:
        """What only the whole file tells. Raises CorruptFile when the bounds or statistics cannot be decoded."""
        file = self._entry.file
        if file.delete_row_count not in (None, self._retracts):
            self._breach(Kind.COUNT, f"it has {self._retracts} deletes, its metadata says {file.delete_row_count}")
        recorded = (file.min_sequence, file.max_sequence)
        if self._sequence not in (None, recorded) and not self._is_ordered_by_snapshot:
            detail = f"its sequence numbers are {self._sequence}, its metadata says {recorded}"
            self._breach(Kind.BOUNDS, detail)
        self._check_key_bounds()
        self._check_statistics()

    def _breach(self, kind: Kind, detail: str) -> None:
        self._found.setdefault(kind, Breach(kind, self._places.data_file_name(self._entry), detail))

    @cached_property
    def _key_names(self) -> list[str]:
        return [f.name for f in self._schema.key_fields]

    @property
    def _is_postponed(self) -> bool:
        return self._entry.bucket == POSTPONE_BUCKET

    @property
    def _is_ordered_by_snapshot(self) -> bool:
        ordered = parse_bool(self._schema.options.get("sequence.snapshot-ordering", "false"))
        return self._is_postponed or (ordered and self._entry.file.source == APPEND)

    # ------------------------------------------------------------------ a batch

    def _check_order(self, keys: pa.Table) -> None:
        if self._is_postponed:
            return
        joined = keys if self._last is None else pa.concat_tables([self._last, keys])
        normalized = normalize(joined.columns, [f.type for f in self._schema.key_fields])
        wrong = np.flatnonzero(normalized[1:] <= normalized[:-1])
        if len(wrong):
            row = self._rows + int(wrong[0]) + (self._last is None)
            equal = normalized[wrong[0] + 1] == normalized[wrong[0]]
            self._breach(Kind.ORDER, f"the key of row {row} {'equals' if equal else 'is below'} that of row {row - 1}")

    def _check_copies(self, values: pa.Table) -> None:
        for field in self._schema.key_fields:
            copy, column = values.column(KEY_PREFIX + field.name), values.column(field.name)
            if copy.null_count == len(copy) or copy.equals(column):
                continue
            both = normalize([pa.chunked_array([*copy.chunks, *column.chunks])], [field.type])
            differs = np.flatnonzero(both[: len(copy)] != both[len(copy) :])
            if len(differs):
                row = self._rows + int(differs[0])
                self._breach(Kind.KEY_COPY, f"{KEY_PREFIX}{field.name} differs from {field.name} in row {row}")

    def _check_nulls(self, values: pa.Table) -> None:
        for field in self._schema.fields:
            if not field.type.nullable and values.column(field.name).null_count:
                row = self._rows + pc.index(values.column(field.name).is_null(), True).as_py()
                self._breach(Kind.NULL, f"row {row} has no value for the NOT NULL column {field.name}")

    def _check_bucket(self, values: pa.Table) -> None:
        function = self._schema.options.get_option(BUCKET_FUNCTION)
        total = self._entry.total_buckets
        if total < 1 or function == "hive":
            return
        fields = [self._schema.field(name) for name in self._schema.bucket_keys]
        columns = [values.column(f.name) for f in fields]
        buckets = assign_buckets(columns, [f.type for f in fields], total, function)
        wrong = np.flatnonzero(buckets != self._entry.bucket)
        if len(wrong):
            row = int(wrong[0])
            self._breach(Kind.BUCKET, f"row {self._rows + row} belongs to bucket {buckets[row]} of {total}")

    def _check_partition(self, values: pa.Table) -> None:
        fields = self._schema.partition_fields
        if not fields:
            return
        types = [f.type for f in fields]
        expected = decode([self._entry.partition], types)
        columns = [
            pa.chunked_array([own, *values.column(f.name).chunks]) for own, f in zip(expected, fields, strict=True)
        ]
        normalized = normalize(columns, types)
        wrong = np.flatnonzero(normalized[1:] != normalized[0])
        if len(wrong):
            found = [values.column(f.name)[int(wrong[0])].as_py() for f in fields]
            self._breach(Kind.PARTITION, f"row {self._rows + int(wrong[0])} belongs to partition {found}")

    # ------------------------------------------------------------------ the file

    def _check_key_bounds(self) -> None:
        if self._first is None or self._last is None or self._is_postponed:
            return
        file, types = self._entry.file, [f.type for f in self._schema.key_fields]
        bounds = decode([file.min_key, file.max_key], types)
        columns = [
            pa.chunked_array([bound, *self._first.column(name).chunks, *self._last.column(name).chunks])
            for bound, name in zip(bounds, self._key_names, strict=True)
        ]
        least, greatest, first, last = normalize(columns, types)
        exact = least == first and greatest == last
        if not exact and (file.source == APPEND or not (least <= first and last <= greatest)):
            shown = [_shown(bounds, 0), _shown(bounds, 1)]
            rows = [_shown(self._first.columns, 0), _shown(self._last.columns, 0)]
            self._breach(
                Kind.BOUNDS, f"its keys are from {rows[0]} to {rows[1]}, its metadata says {' to '.join(shown)}"
            )

    def _check_statistics(self) -> None:
        file = self._entry.file
        if not self._rows:
            return
        for field, own in self._columns_with_statistics():
            for key in {False, field.name in self._key_names}:
                lower, upper, nulls, _ = column_statistics([file], self._places.metadata.schemas.get, field, key=key)
                least, greatest = own.bounds()
                if field.type.root == "CHAR" and file.name.endswith(".orc"):
                    lower, upper = pc.utf8_rtrim(lower, " "), pc.utf8_rtrim(upper, " ")
                if nulls[0].is_valid and nulls[0].as_py() != own.null_count:
                    detail = f"column {field.name} has {own.null_count} nulls, its statistics say {nulls[0]}"
                    self._breach(Kind.COUNT, detail)
                above = lower[0].is_valid and pc.less(least, lower)[0].as_py()
                below = upper[0].is_valid and pc.greater(greatest, upper)[0].as_py()
                if above or below:
                    detail = f"column {field.name} has values outside of its statistics, {lower[0]} to {upper[0]}"
                    self._breach(Kind.BOUNDS, detail)

    def _columns_with_statistics(self) -> Iterator[tuple[DataField, ColumnStatistics]]:
        for field, own in zip(self._schema.fields, self._statistics, strict=True):
            if field.type.root not in NESTED:
                yield field, own


def _shown(columns: Sequence[pa.Array | pa.ChunkedArray], row: int) -> str:
    return str([column[row].as_py() for column in columns])
