"""Where data files lie: from a manifest's partition bytes and bucket to a directory, and to a file in it."""

from __future__ import annotations

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.external_path import external_file
from paimon_spark.metadata.partition import partition_path
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.rows.binary_row import decode


def bucket_directory(paths: TablePaths, schema: TableSchema, partition: bytes, bucket: int) -> str:
    """The directory of a bucket; ``partition`` is a serialized BinaryRow of the partition columns."""
    fields = schema.partition_fields
    values = [column[0] for column in decode([partition], [f.type for f in fields])]
    return paths.bucket_directory(partition_path(values, fields, schema.options), bucket, schema.options)


def data_file_path(paths: TablePaths, schema: TableSchema, partition: bytes, bucket: int, file: DataFile) -> str:
    """The full path of a data file. Raises as :func:`external_file`."""
    if file.external_path is None:
        return paths.data_file(bucket_directory(paths, schema, partition, bucket), file)
    return external_file(file.external_path, paths.root, schema.options)
