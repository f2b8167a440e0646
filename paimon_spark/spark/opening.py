"""What the driver opens: the scan and the writer that the options of a Spark read or write describe.

Tasks import the reader and the writer, but not this module, and so not the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from paimon_spark.errors import InvalidInput, InvalidOption
from paimon_spark.options import DATA_FILE_PREFIX, PARTITION, PRIMARY_KEY, parse_names
from paimon_spark.read.scan import Scan
from paimon_spark.spark.leftovers import unique_prefix
from paimon_spark.spark.options import (
    FILTERS,
    OWNED_BUCKETS,
    chosen_columns,
    overwrites_dynamically,
    read_options,
    table_path,
    write_options,
)
from paimon_spark.spark.types import written_schema
from paimon_spark.spark.writer import PaimonWriter
from paimon_spark.storage.credentials import storage_options
from paimon_spark.table import PaimonTable


def open_scan(options: Mapping[str, str]) -> Scan:
    """The scan that the options of a Spark read describe, bound to a snapshot.

    :raises PaimonError: there is no table, or the options do not fit it
    """
    table = PaimonTable.open(table_path(options), storage_options(options))
    return table.scan(chosen_columns(options), options.get(FILTERS), read_options(options, table.schema.names))


def open_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> PaimonWriter:
    """A writer of rows with ``schema`` (a StructType) for the table that ``options`` name or define.

    :raises PaimonError: the rows or the options do not fit the table, or do not define a new one
    """
    rows = written_schema(schema)
    table = open_destination(options, rows)
    write = table.new_write(overwrite, dynamic=overwrites_dynamically(options) if overwrite else None)
    write.check(rows)
    return PaimonWriter(write, rows, owned_buckets=options.get(OWNED_BUCKETS) == "true")


def open_destination(options: Mapping[str, str], rows: pa.Schema) -> PaimonTable:
    """The table that the options of a write name or define, under these options and a file prefix of its own.

    :raises PaimonError: the options do not fit the table, or do not define a new one
    """
    path, storage = table_path(options), storage_options(options)
    table = PaimonTable.open(path, storage) if PaimonTable.exists(path, storage) else _created(path, rows, options)
    of_this_write = write_options(options, table.schema.names)
    of_this_write[DATA_FILE_PREFIX.key] = unique_prefix(table.options.merged(of_this_write))
    return PaimonTable.open(path, {**storage, **of_this_write})


def _created(path: str, rows: pa.Schema, options: Mapping[str, str]) -> PaimonTable:
    storage, definition = storage_options(options), write_options(options, rows.names)
    primary_keys = parse_names(definition.pop(PRIMARY_KEY.key, ""))
    partition_keys = parse_names(definition.pop(PARTITION.key, ""))
    if not primary_keys:
        raise InvalidOption(
            f"there is no Paimon table at {path}. For this write to create it, name its primary key in the option "
            f"{PRIMARY_KEY.key!r}, as in .option({PRIMARY_KEY.key!r}, {rows.names[0] if rows.names else 'id'!r})"
        )
    try:
        return PaimonTable.create(path, rows, primary_keys, partition_keys, {**storage, **definition})
    except InvalidInput:
        if PaimonTable.exists(path, storage):
            # Another writer has created it since we looked.
            return PaimonTable.open(path, storage)
        raise
