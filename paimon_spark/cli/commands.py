"""The commands. Each prints its result and returns the exit code of the process."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from paimon_spark.check.table_check import check as check_path
from paimon_spark.cli.inspection import inspection, levels_text
from paimon_spark.cli.rendering import count, one_line, terminal_width
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import PARTITION_DEFAULT_NAME
from paimon_spark.table import PaimonTable
from paimon_spark.types import arrow_type

DONE, FAILED, USAGE, CONFLICT, UNKNOWN = 0, 1, 2, 3, 4


class UsageError(Exception):
    """The arguments do not fit the table."""


def check(arguments: Namespace) -> int:
    """Print each breach of the table on a line of its own."""
    breaches = check_path(
        arguments.path,
        dict(arguments.option),
        snapshot=arguments.snapshot,
        all_snapshots=arguments.all_snapshots,
        deep=not arguments.fast,
    )
    for breach in breaches:
        print(one_line(str(breach)))
    if breaches:
        print(f"{count(len(breaches))} {'breach' if len(breaches) == 1 else 'breaches'}")
        return FAILED
    print("sound, as far as manifests and directories tell" if arguments.fast else "sound")
    return DONE


def inspect(arguments: Namespace) -> int:
    """Print the table's definition, a snapshot and the shape of its buckets."""
    options = {} if arguments.snapshot is None else {"scan.snapshot-id": str(arguments.snapshot)}
    table = PaimonTable.open(arguments.path, dict(arguments.option))
    for line in inspection(table, options, arguments.files, terminal_width()):
        print(line)
    return DONE


def compact(arguments: Namespace) -> int:
    """Compact the table, or some of its partitions, here or as a Spark job, and print what came of it."""
    table = PaimonTable.open(arguments.path, dict(arguments.option))
    partitions = [typed_partition(table.table_schema, given) for given in arguments.partition] or None
    if arguments.spark:
        from paimon_spark.spark.compact_job import compact_on_cluster

        snapshot = compact_on_cluster(arguments.path, arguments.full, partitions, dict(arguments.option))
    else:
        snapshot = table.compact(full=arguments.full, partitions=partitions)
    if snapshot is None:
        print("nothing to compact")
        return DONE
    print(f"snapshot {snapshot.id}")
    for line in levels_text(table.levels({"scan.snapshot-id": str(snapshot.id)}), terminal_width()):
        print(line)
    return DONE


def expire(arguments: Namespace) -> int:
    """Expire snapshots of the table, and print how many."""
    table = PaimonTable.open(arguments.path, dict(arguments.option))
    expired = table.expire_snapshots(
        arguments.retain_max, arguments.retain_min, arguments.older_than, arguments.max_deletes
    )
    left = [snapshot.id for snapshot in table.snapshots()]
    kept = f"{left[0]} to {left[-1]} are kept" if left else "the table has none"
    print(f"{count(expired)} {'snapshot' if expired == 1 else 'snapshots'} expired, {kept}")
    return DONE


COMMANDS: Mapping[str, Callable[[Namespace], int]] = {
    "check": check,
    "inspect": inspect,
    "compact": compact,
    "expire": expire,
}


def typed_partition(schema: TableSchema, given: Mapping[str, str]) -> dict[str, Any]:
    """Partition values of their text: numbers in digits, dates as 2024-01-31; ``partition.default-name`` is null.

    :raises UsageError: a column that is no partition column, or a text that is no value of its type
    """
    default = schema.options.get_option(PARTITION_DEFAULT_NAME)
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in schema.partition_keys:
            known = ", ".join(schema.partition_keys) or "the table has none"
            raise UsageError(f"--partition: {name!r} is not a partition column ({known})")
        type_ = schema.field(name).type
        try:
            values[name] = None if text == default else pa.scalar(text).cast(arrow_type(type_)).as_py()
        except pa.ArrowException as problem:
            raise UsageError(f"--partition: {text!r} is no value of {name} {type_} ({problem})") from None
    return values
