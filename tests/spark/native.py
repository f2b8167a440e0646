"""Native reads, held against what the table itself reads without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.batches import outgoing, outgoing_schema
from paimon_spark.spark.native_plan import NativePlan
from paimon_spark.spark.native_rest import pinned, rest_scan
from paimon_spark.spark.native_scan import NativeScan
from paimon_spark.spark.options import COLUMNS, FILTERS, columns_json, filters_json
from paimon_spark.spark.reader import scan_schema
from paimon_spark.types import DataField, parse_type
from tests.java.rows import assert_same_rows


def plan_of(
    table: PaimonTable, columns: Sequence[str] | None = None, filters: Any = None, **options: str
) -> NativePlan:
    """Which files of a scan go which way."""
    scan = table.scan(columns, filters, options)
    return NativePlan.of(scan, scan.splits)


def evolved(table: PaimonTable, *fields: tuple[int, str, str]) -> PaimonTable:
    """The table with another newest schema."""
    schema = table.table_schema
    made = replace(
        schema,
        id=schema.id + 1,
        fields=tuple(DataField(id_, name, parse_type(type_)) for id_, name, type_ in fields),
        highest_field_id=max(id_ for id_, _, _ in fields),
    )
    assert table.metadata.schemas.create(made)
    return PaimonTable.open(table.path)


def both_parts(
    table: PaimonTable, columns: list[str] | None = None, filters: Any = None, **options: str
) -> tuple[NativePlan, pa.Table]:
    """A plan and the rows of its parts, read without Spark: the files without what is masked, and the rest as the
    source reads it that the options tell."""
    scan = table.scan(columns, filters, options)
    plan = NativePlan.of(scan, scan.splits)
    batches = [batch for split in _native_splits(scan, plan) for batch in scan.read_split(split)]
    told = {**options, "path": table.path, COLUMNS: columns_json(scan.columns), **pinned(plan)}
    if filters is not None:
        told[FILTERS] = filters_json(filters)
    rest = rest_scan(told)
    assert rest.splits == list(plan.rest)
    batches += rest.batches()
    return plan, pa.Table.from_batches(batches, scan.schema)


def _native_splits(scan: Scan, plan: NativePlan) -> list[Split]:
    buckets = {file.name: split.bucket for split in scan.splits for file in split.files}
    return [
        Split(
            scan.snapshot_id or 0,
            f.partition,
            buckets[f.file.name],
            ((f.file,),),
            chosen={f.file.name: BitMap(range(f.file.row_count)) - NativeScan(None, plan)._vector(f).bitmap},
        )
        for f in plan.files
    ]


def as_spark_sees(rows: pa.Table, schema: Any) -> pa.Table:
    """The rows of a table in the types of ``schema``, a StructType."""
    target = outgoing_schema(schema)
    return pa.Table.from_batches([outgoing(batch, target) for batch in rows.to_batches()], target)


def assert_native(
    spark: Any, table: PaimonTable, columns: Sequence[str] | None = None, filters: Any = None, **options: str
) -> Any:
    """The native read has the columns and rows of the table's own; that DataFrame."""
    scan = table.scan(columns, filters, options)
    expected = as_spark_sees(pa.Table.from_batches(scan.batches(), scan.schema), scan_schema(scan))
    df = paimon_spark.read(spark, table.path, columns, filters, **options)
    assert df.columns == expected.column_names
    assert [f.dataType.simpleString() for f in df.schema] == [f.dataType.simpleString() for f in scan_schema(scan)]
    assert [f.metadata for f in df.schema] == [f.metadata for f in scan_schema(scan)]
    assert_same_rows(_countable(df.toArrow()), _countable(expected))
    assert df.count() == expected.num_rows
    return df


def _countable(rows: pa.Table) -> pa.Table:
    """The rows with timestamps as numbers: those of ancient times have no nanoseconds that a comparison could count."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.int64()))
    return rows
