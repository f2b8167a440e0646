"""Tables that Java wrote, read natively at every snapshot, are what Java read; and level 0 is visible, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.spark.types import spark_schema
from paimon_spark.types import arrow_schema
from tests.java.rows import assert_same_rows, golden_snapshots, golden_table
from tests.sizes import SOAK
from tests.spark.native import as_spark_sees, assert_native, both_parts, plan_of
from tests.table.test_golden import READABLE

FRESH = "deletion-vectors.merge-on-read"
NATIVE_AT_THE_END = {
    "dedup_parquet",
    "dv_bitmap64",
    "dv_dedup_deletes",
    "dv_multi_file",
    "dv_partition_buckets",
    "dv_pu",
    "partition_kinds",
    "pu_basic",
    "pu_seqgroups",
    "schema_evolution",
    "thin_mode",
}


@pytest.mark.parametrize("name", READABLE)
def test_every_snapshot_reads_as_java_read_it(spark: Any, golden: Path, name: str) -> None:
    table = PaimonTable.open(str(golden / name / "warehouse" / "default.db" / "t"))
    as_java = {} if FRESH in table.options else {FRESH: "false"}
    last = None
    for snapshot in golden_snapshots(golden / name):
        options = {"scan.snapshot-id": str(snapshot["snapshot"]), **as_java}
        if "error" in snapshot:
            continue
        last = plan_of(table, **options)
        if last.files:
            schema = table.scan(options=options).table_schema
            df = paimon_spark.read(spark, table.path, **options)
            rows = golden_table(snapshot, arrow_schema(schema.fields))
            assert_same_rows(df.toArrow(), as_spark_sees(rows, spark_schema(schema.fields)))
    if name.split("/")[1] in NATIVE_AT_THE_END:
        assert last is not None
        assert last.files
        assert not last.rest


@pytest.mark.parametrize("name", [n for n in READABLE if "/dv_" in n])
def test_level_0_of_deletion_vector_tables_is_visible(spark: Any, golden: Path, name: str) -> None:
    """Of each way to split files the newest snapshot through Spark, the others without it; in soak all through it."""
    table = PaimonTable.open(str(golden / name / "warehouse" / "default.db" / "t"))
    ways = set()
    for snapshot in reversed(table.snapshots()):
        options = {"scan.snapshot-id": str(snapshot.id), FRESH: "true"}
        plan = plan_of(table, **options)
        way = bool(plan.files), bool(plan.rest)
        if plan.files and (SOAK or way not in ways):
            assert_native(spark, table, **options)
        elif plan.files:
            assert_same_rows(both_parts(table, **options)[1], table.read(options=options))
        ways.add(way)
    assert (True, False) in ways
    assert (True, True) in ways or (False, True) in ways
