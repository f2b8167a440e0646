"""Reading one data file: the wanted columns of its rows, whatever its format and the schema it was written with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_numpy
from paimon_spark.errors import CorruptFile, NotFound, UnsupportedFeature
from paimon_spark.files.evolution import ColumnSource, column_sources, refuse_misnamed
from paimon_spark.files.kept_rows import kept_rows
from paimon_spark.files.key_values import Int8Array, Int64Array, KeyValues
from paimon_spark.files.parquet_input import ParquetInput
from paimon_spark.files.physical import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.files.row_groups import Deletion, RowGroups
from paimon_spark.files.stored_file import StoredFile, reading
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.predicate import BoolArray, Predicate
from paimon_spark.storage.storage import Storage
from paimon_spark.types import NESTED, DataField, arrow_schema, arrow_type


def read_data_file(
    storage: Storage,
    path: str,
    file: DataFile,
    *,
    data_schema: TableSchema,
    fields: Sequence[DataField],
    sequence: bool = True,
    kind: bool = True,
    constants: Mapping[str, pa.Scalar] | None = None,
    predicate: Predicate | None = None,
    deletion: Deletion | None = None,
    batch_rows: int = 65_536,
) -> Iterator[KeyValues]:
    """The rows of a data file in file order, in batches of at most ``batch_rows``; deleted rows are left out.

    ``data_schema`` is the schema that the file was written with. The batches have the columns ``fields``, in that
    order and with the Arrow types of their types; ``constants`` gives the values of columns that are not read
    (partition columns). ``sequence`` and ``kind`` say whether sequence numbers and row kinds are needed; without,
    the batches have none. ``predicate``, on columns of ``fields``, only serves to skip groups of rows by their
    statistics: rows that do not satisfy it may appear.

    :raises NotFound: the file is gone
    :raises CorruptFile: its size, row count, checksums or content contradict its metadata or format
    :raises UnsupportedFeature: a format other than parquet, ORC or Avro, or a change of type that has no cast
    :raises InvalidInput: a text in it cannot be cast to the column's new type
    """
    with _source(storage, path, file) as source:
        with reading(path):
            stored = _open(source, file, data_schema, path)
            plan = _Columns.plan(stored, fields, data_schema, constants or {}, sequence, kind, path)
            groups = _choose(stored, plan, file, predicate, deletion, path)
        yield from _read(stored, plan, groups, batch_rows, path)


def check_parquet_size(storage: Storage, path: str, file: DataFile) -> None:
    """That a parquet file has as many bytes and rows as its metadata says, by its footer.

    :raises NotFound: the file is gone
    :raises CorruptFile: it has others, or the footer is damaged
    """
    with _source(storage, path, file) as source, reading(path):
        _check_rows(ParquetInput(source), file, path)


@contextmanager
def _source(storage: Storage, path: str, file: DataFile) -> Iterator[pa.NativeFile]:
    """The file, open, and as long as its metadata says."""
    try:
        source = storage.open(path)
    except NotFound:
        raise NotFound(
            f"data file {path} does not exist; the snapshot that lists it may have expired while it was read. "
            "Read the table again, or keep snapshots longer (snapshot.time-retained)"
        ) from None
    with source:
        if source.size() != file.size:
            raise CorruptFile(path, f"it is {source.size()} bytes long, its metadata says {file.size}")
        yield source


def _open(source: pa.NativeFile, file: DataFile, data_schema: TableSchema, path: str) -> StoredFile:
    extension = file.name.rpartition(".")[2].lower()
    if extension == "parquet":
        return ParquetInput(source)
    if extension == "orc":
        from paimon_spark.files.orc_input import OrcInput

        return OrcInput(source, data_schema.fields)
    if extension == "avro":
        from paimon_spark.files.avro_input import AvroInput

        return AvroInput(source, data_schema.fields, file.row_count, path)
    raise UnsupportedFeature(f"data file {file.name}: format {extension!r} is not supported; parquet, orc and avro are")


@dataclass(frozen=True)
class _Columns:
    """Where the wanted columns come from. ``stored`` are the file's columns to decode."""

    sources: tuple[ColumnSource, ...]
    constants: Mapping[str, pa.Scalar]
    stored: tuple[str, ...]
    schema: pa.Schema
    sequence: bool
    kind: bool

    @staticmethod
    def plan(
        stored: StoredFile,
        fields: Sequence[DataField],
        data_schema: TableSchema,
        constants: Mapping[str, pa.Scalar],
        sequence: bool,
        kind: bool,
        path: str,
    ) -> _Columns:
        present = frozenset(stored.columns)
        known = {SEQUENCE_NUMBER, VALUE_KIND}
        known |= {name for f in data_schema.fields for name in (f.name, KEY_PREFIX + f.name)}
        sources = []
        for source in column_sources(fields, data_schema.fields):
            absent = source.stored is not None and source.stored.name not in present
            if absent:
                refuse_misnamed(source, stored.columns, known)
            sources.append(ColumnSource(source.wanted, None) if absent else source)
        names = [s.stored.name for s in sources if s.stored is not None and s.wanted.name not in constants]
        for name, needed in ((SEQUENCE_NUMBER, sequence), (VALUE_KIND, kind)):
            if needed and name not in present:
                raise CorruptFile(path, f"it has no column {name}")
            if needed or (not names and name in present):
                names.append(name)
        return _Columns(tuple(sources), constants, tuple(names), arrow_schema(fields), sequence, kind)

    def filterable(self) -> dict[str, str]:
        """The wanted columns whose stored statistics speak about the wanted values, and their stored names."""
        return {
            s.wanted.name: s.stored.name
            for s in self.sources
            if s.stored is not None
            and s.is_unchanged
            and s.wanted.name not in self.constants
            and s.wanted.type.root not in NESTED
        }

    def rows(self, batch: pa.RecordBatch) -> KeyValues:
        """The wanted rows of a decoded batch."""
        arrays = [self._column(source, batch) for source in self.sources]
        values = pa.Table.from_arrays(arrays, schema=self.schema)
        if not arrays:
            values = _without_columns(batch.num_rows)
        return KeyValues(values, self._sequence(batch), self._kind(batch))

    def _column(self, source: ColumnSource, batch: pa.RecordBatch) -> pa.Array:
        constant = self.constants.get(source.wanted.name)
        if constant is not None:
            return pa.repeat(constant, batch.num_rows).cast(arrow_type(source.wanted.type))
        if source.stored is None:
            return pa.nulls(batch.num_rows, arrow_type(source.wanted.type))
        return source.column(batch.column(source.stored.name))

    def _sequence(self, batch: pa.RecordBatch) -> Int64Array | None:
        if not self.sequence:
            return None
        return np.asarray(to_numpy(batch.column(SEQUENCE_NUMBER)), np.int64)

    def _kind(self, batch: pa.RecordBatch) -> Int8Array | None:
        if not self.kind:
            return None
        kinds = to_numpy(batch.column(VALUE_KIND)).astype(np.int8)
        if kinds.size and not (kinds.min() >= 0 and kinds.max() <= 3):
            raise ValueError(f"{VALUE_KIND} has values from {kinds.min()} to {kinds.max()}; 0 to 3 are row kinds")
        return kinds if kinds.any() else None


def _without_columns(rows: int) -> pa.Table:
    """A table of so many rows and no columns."""
    return pa.table({"": pa.nulls(rows)}).select([])


def _check_rows(stored: StoredFile, file: DataFile, path: str) -> Sequence[int]:
    """The number of rows of each row group, together as many as the metadata says."""
    group_rows = stored.group_rows
    if sum(group_rows) != file.row_count:
        raise CorruptFile(path, f"it has {sum(group_rows)} rows, its metadata says {file.row_count}")
    return group_rows


def _choose(
    stored: StoredFile,
    plan: _Columns,
    file: DataFile,
    predicate: Predicate | None,
    deletion: Deletion | None,
    path: str,
) -> RowGroups:
    group_rows = _check_rows(stored, file, path)
    may_match: BoolArray | None = None
    if predicate is not None:
        may_match = stored.may_match(predicate, plan.filterable())
    return RowGroups.choose(group_rows, may_match, deletion)


def _read(stored: StoredFile, plan: _Columns, groups: RowGroups, batch_rows: int, path: str) -> Iterator[KeyValues]:
    with reading(path):
        batches = stored.batches(plan.stored, groups.numbers, batch_rows)
    done = 0
    while True:
        with reading(path):
            batch = next(batches, None)
            if batch is None:
                break
            first, done = done, done + batch.num_rows
            if done > groups.row_count:
                break
            if groups.keep is not None:
                batch = kept_rows(batch, groups.keep.slice(first, batch.num_rows))
            rows = plan.rows(batch) if batch.num_rows else None
        if rows is not None:
            yield rows
    if done != groups.row_count:
        raise CorruptFile(path, f"{done} rows could be read where its metadata promises {groups.row_count}")
