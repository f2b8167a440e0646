"""SplitReader: the rows of a split, as Arrow batches.

A section of one file is read as it is: deletion vector applied, deletes dropped, the whole filter used to skip row
groups. A section of several files is merged: vectors are applied to each file first, then the sorted runs are merged by
key in bounded windows, folded by the merge engine, and only then are deletes dropped and the filter applied. Before the
merge only filters on the key may skip row groups, because a row that fails a filter on values may be the newest
version of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.reader import read_data_file
from paimon_spark.files.row_groups import AllBut, Deletion
from paimon_spark.merge.engine import MergeEngine, merge_engine
from paimon_spark.merge.run_order import are_apart, oldest_first
from paimon_spark.merge.sections import file_key_ranges, sorted_runs
from paimon_spark.merge.sorted_merge import merge_runs
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import read_deletion_vector
from paimon_spark.metadata.locations import data_file_path
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import READ_BATCH_SIZE
from paimon_spark.predicate import Predicate
from paimon_spark.read.split import Split
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import DataField, arrow_schema


@dataclass(frozen=True)
class SplitReader:
    """Reads splits of one scan: ``columns`` of ``schema`` in that order, only rows that satisfy ``predicate``."""

    metadata: TableMetadata
    schema: TableSchema
    columns: tuple[str, ...]
    predicate: Predicate | None

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches."""
        return arrow_schema([self.schema.field(name) for name in self.columns])

    @cached_property
    def _engine(self) -> MergeEngine:
        return merge_engine(self.schema)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of the split; in key order within a section, sections in key order.

        :raises NotFound: a file is gone, because the snapshot has expired
        :raises CorruptFile: a file contradicts its metadata or checksums
        """
        files = _SplitFiles(self, split)
        for section in split.sections:
            rows = files.lone(section[0]) if len(section) == 1 else self._merged(files, section)
            for batch in rows:
                yield from self._finished(batch)

    def _merged(self, files: _SplitFiles, section: Sequence[DataFile]) -> Iterator[KeyValues]:
        key_fields = self.schema.key_fields
        mins, maxs = file_key_ranges(section, [f.type for f in key_fields])
        runs = oldest_first([section[i] for i in run] for run in sorted_runs(mins, maxs))
        by_age = not self._engine.user_sequence and are_apart(runs)
        wanted = self._fields_for_merge
        inputs = [files.run(run, wanted, sequence=not by_age) for run in runs]
        return merge_runs(inputs, key_fields, self._engine)

    @cached_property
    def _fields_for_file(self) -> tuple[DataField, ...]:
        names = set(self.columns) | (self.predicate.columns if self.predicate else set())
        return tuple(f for f in self.schema.fields if f.name in names)

    @cached_property
    def _fields_for_merge(self) -> tuple[DataField, ...]:
        names = {f.name for f in (*self._fields_for_file, *self.schema.key_fields)}
        names |= self._engine.required_columns(names)
        return tuple(f for f in self.schema.fields if f.name in names)

    @cached_property
    def key_predicate(self) -> Predicate | None:
        """The part of the filter that concerns key columns alone."""
        return self.predicate and self.predicate.restricted({f.name for f in self.schema.key_fields})

    @property
    def fields_for_file(self) -> tuple[DataField, ...]:
        """The columns that a file read on its own must give: those asked for and those of the filter."""
        return self._fields_for_file

    def _finished(self, rows: KeyValues) -> Iterator[pa.RecordBatch]:
        """Adds only, filtered exactly, projected."""
        values = rows.values
        keep = None if rows.kind is None else to_arrow((rows.kind & 1) == 0)
        if keep is not None:
            values = values.filter(keep)
        if self.predicate is not None:
            values = values.filter(self.predicate.mask(values))
        values = values.select(list(self.columns)).cast(self.arrow_schema)
        yield from (batch for batch in values.to_batches() if batch.num_rows)


@dataclass(frozen=True)
class _SplitFiles:
    """Opens the files of one split."""

    reader: SplitReader
    split: Split

    @cached_property
    def _constants(self) -> Mapping[str, pa.Scalar]:
        fields = self.reader.schema.partition_fields
        columns = decode([self.split.partition], [f.type for f in fields])
        return {f.name: column[0] for f, column in zip(fields, columns, strict=True)}

    def lone(self, file: DataFile) -> Iterator[KeyValues]:
        """A file that overlaps no other."""
        reader = self.reader
        return self._read(file, reader.fields_for_file, reader.predicate, sequence=False)

    def run(self, run: Sequence[DataFile], fields: Sequence[DataField], *, sequence: bool) -> Iterator[KeyValues]:
        """A sorted run: its files one after another."""
        for file in run:
            yield from self._read(file, fields, self.reader.key_predicate, sequence=sequence)

    def _read(
        self, file: DataFile, fields: Sequence[DataField], predicate: Predicate | None, *, sequence: bool
    ) -> Iterator[KeyValues]:
        metadata, schema = self.reader.metadata, self.reader.schema
        data_schema = schema if file.schema_id == schema.id else metadata.schemas.get(file.schema_id)
        return read_data_file(
            metadata.storage,
            data_file_path(metadata.paths, schema, self.split.partition, self.split.bucket, file),
            file,
            data_schema=data_schema,
            fields=fields,
            sequence=sequence,
            kind=file.delete_row_count != 0,
            constants=self._constants,
            predicate=predicate,
            deletion=self._deletion(file),
            batch_rows=schema.options.get_option(READ_BATCH_SIZE),
        )

    def _deletion(self, file: DataFile) -> Deletion | None:
        chosen = self.split.chosen.get(file.name)
        if chosen is not None:
            return AllBut(chosen)
        ref = self.split.deletions.get(file.name)
        if ref is None:
            return None
        return read_deletion_vector(self.reader.metadata.storage, ref, file.row_count)
