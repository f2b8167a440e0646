"""BucketFiles: opens the data files of one bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.reader import read_data_file
from paimon_spark.files.row_groups import Deletion
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.locations import data_file_path
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import READ_BATCH_SIZE
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import DataField


@dataclass(frozen=True)
class BucketFiles:
    """The files of a bucket; ``partition`` is a serialized BinaryRow, ``schema`` the table's newest."""

    metadata: TableMetadata
    schema: TableSchema
    partition: bytes
    bucket: int

    @cached_property
    def directory(self) -> str:
        """Where new files of the bucket go."""
        return self.metadata.bucket_directory(self.schema, self.partition, self.bucket)

    def path(self, file: DataFile) -> str:
        """The full path of a file."""
        return data_file_path(self.metadata.paths, self.schema, self.partition, self.bucket, file)

    def data_schema(self, id_: int) -> TableSchema:
        """The schema of that id, with which a file was written."""
        return self.schema if id_ == self.schema.id else self.metadata.schemas.get(id_)

    def read(
        self, file: DataFile, fields: Sequence[DataField], *, sequence: bool, deletion: Deletion | None
    ) -> Iterator[KeyValues]:
        """The rows of a file that ``deletion`` leaves, as :func:`~paimon_spark.files.reader.read_data_file` gives
        them; kinds are read where the file may have retracts."""
        return read_data_file(
            self.metadata.storage,
            self.path(file),
            file,
            data_schema=self.data_schema(file.schema_id),
            fields=fields,
            sequence=sequence,
            kind=sequence and file.delete_row_count != 0,
            constants=self._constants,
            deletion=deletion,
            batch_rows=self.schema.options.get_option(READ_BATCH_SIZE),
        )

    def delete(self, name: str) -> None:
        """Delete a file that lies in the bucket's directory; a missing one is fine."""
        self.metadata.storage.delete(f"{self.directory}/{name}")

    @cached_property
    def _constants(self) -> Mapping[str, pa.Scalar]:
        fields = self.schema.partition_fields
        columns = decode([self.partition], [f.type for f in fields])
        return {f.name: column[0] for f, column in zip(fields, columns, strict=True)}
