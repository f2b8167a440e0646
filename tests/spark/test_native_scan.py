"""Native reads of tables made here: what is in them, which files go which way, and what reaches parquet."""

from __future__ import annotations

import logging
import random
import re
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyroaring import BitMap
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark import native_bitmaps, native_bitsets, native_local, native_parquet
from paimon_spark.spark.native_bitmaps import Bitmaps, are_told_apart, bitmap_bytes, is_live
from paimon_spark.spark.native_bitsets import contains, serialized
from paimon_spark.spark.native_columns import POSITION
from paimon_spark.spark.native_hash import file_number
from paimon_spark.spark.native_jvm import jvm_strings
from paimon_spark.spark.native_parquet import PlannedScan, PublicScan, is_planned, open_parquet
from paimon_spark.spark.native_plan import NativePlan
from paimon_spark.spark.native_scan import _LISTED, _LISTING_THRESHOLD, NativeScan
from paimon_spark.types import DataField, parse_type
from tests.spark.frames import load, rows
from tests.spark.native import assert_native, evolved, plan_of
from tests.spark.versions import ALL
from tests.table.test_interoperability import VALUE_TYPES, _value

KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32()), ("name", pa.string())])

VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
# Rows of level 0 are merged with what is above.
PARTLY = {**VECTORS, "merge-engine": "partial-update"}


def _keyed(ids: Any) -> pa.Table:
    return pa.table({"id": list(ids), "v": [i % 7 for i in ids], "name": [f"n{i}" for i in ids]}, KEYED)


def _with_vectors(path: str, count: int = 2000, **options: str) -> PaimonTable:
    """A compacted table of ids below ``count``, every third of them deleted from its first file by newer versions."""
    table = PaimonTable.create(path, KEYED, ["id"], options=VECTORS | options)
    table.append(_keyed(range(count)))
    table.compact(full=True)
    table.append(_keyed(range(0, count, 3)))
    table.compact()
    return table


def _plan(df: Any) -> str:
    """The physical plan of a DataFrame."""
    return str(df._jdf.queryExecution().sparkPlan().toString())


def test_files_with_vectors_without_and_to_be_merged(
    spark: Any, path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _with_vectors(path, **{"bucket": "2", "bucket-function.type": "mod"})
    plan = plan_of(table)
    masked = [f.deletion is not None for f in sorted(plan.files, key=lambda f: f.file.row_count)]
    assert masked == [False, False, True, True]
    assert not plan.rest
    with caplog.at_level(logging.INFO, "paimon_spark"):
        assert_native(spark, table)
    went = (
        "4 files through Spark's parquet reader (2 of them with deletion vectors, 0 without older versions of rows at"
    )
    assert f"{went} level 0), 0 files in 0 splits through Python" in caplog.text
    table.append(_keyed(range(0, 600, 2)))
    monkeypatch.setattr(native_local, "FILE_BYTES", 0)
    plan = plan_of(table)
    assert len(plan.files) == 2
    assert [len(split.files) for split in plan.rest] == [3]
    df = assert_native(spark, table)
    assert "paimon-py-rest" in _plan(df)


def test_a_native_read_keeps_its_snapshot(spark: Any, path: str) -> None:
    table = _with_vectors(path, 30)
    table.append(_keyed([100]))
    df = paimon_spark.read(spark, path)
    table.append(_keyed([101]))
    table.compact(full=True)
    assert df.count() == 31
    assert paimon_spark.read(spark, path, **{"scan.snapshot-id": 1}).count() == 30
    assert paimon_spark.read(spark, path).count() == 32


def test_columns_filters_and_counts_reach_parquet(spark: Any, path: str) -> None:
    table = _with_vectors(path)
    df = paimon_spark.read(spark, table.path)
    plan = _plan(df.where("id > 1990").select("v"))
    assert plan.count("PushedFilters: [IsNotNull(id), GreaterThan(id,1990)]") == 2
    assert "ReadSchema: struct<id:bigint,v:int>" in plan
    assert re.search(r"\bname#", plan) is None
    counting = _plan(df.groupBy().count())
    assert "ReadSchema: struct<>" in counting
    assert "ReadSchema: struct<_tmp_metadata_row_index:bigint>" in counting
    assert df.where("id > 1990").count() == 9
    assert sorted(row.v for row in df.where("id > 1990").select("v").collect()) == sorted(
        i % 7 for i in range(1991, 2000)
    )


def test_pages_that_a_filter_excludes_are_not_read(spark: Any, path: str) -> None:
    table = _with_vectors(path, 20_000, **{"parquet.page.size": "1 kb"})
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        few = paimon_spark.read(spark, table.path).where("id between 12345 and 12350")
        assert rows(few.select("id", "v")) == [(i, i % 7) for i in range(12345, 12351)]
        drained = few.select("v")
        drained.collect()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    scans = drained._jdf.queryExecution().executedPlan().collectLeaves()
    read = [scans.apply(i).metrics().get("numOutputRows").get().value() for i in range(scans.size())]
    assert 0 < sum(read) < 5_000
    assert_native(spark, table, filters=[("id", ">", 19_000), ("v", "=", 3)])


def test_filters_prune_files_and_hold_for_rows(spark: Any, path: str) -> None:
    table = PaimonTable.create(path, KEYED, ["id"], options={"bucket": "4"})
    table.overwrite(_keyed(range(100)))
    assert len(plan_of(table, filters=[("id", "=", 17)]).files) == 1
    assert not plan_of(table, filters=[("id", ">", 1000)]).files
    assert_native(spark, table, filters=[("id", "=", 17)])
    assert_native(spark, table, ["name"], [("v", ">", 3)])
    assert_native(spark, table, ["v"], [[("id", "<", 3)], [("name", "in", ["n50", "n51"])]])
    assert_native(spark, table, ["v"], [("v", "not in", [1, 2]), ("name", "starts with", "n9")])
    assert_native(spark, table, filters=[("id", ">", 1000)])


def test_partition_values_come_from_the_manifest(spark: Any, path: str) -> None:
    schema = pa.schema([("p", pa.string()), ("q", pa.date32()), ("id", pa.int64()), ("v", pa.int32())])
    table = PaimonTable.create(path, schema, ["p", "q", "id"], ["p", "q"], {"bucket": "1"})
    made = [("a/b=c %25", 19000 + day, i, i) for i, day in enumerate(range(3))] + [("é{x}[1]*?", -700_000, 7, 7)]
    columns = list(zip(*made, strict=True))
    data = pa.table([columns[0], pa.array(columns[1], pa.int32()).cast(pa.date32()), *columns[2:]], schema=schema)
    table.overwrite(data)
    df = assert_native(spark, table)
    assert plan_of(table).files
    assert_native(spark, table, ["v", "p"], [("q", ">", "2022-01-08")])
    pruned = _plan(df.where("p = 'nowhere' and v > 3"))
    assert "FileScan" not in pruned


def test_many_partitions_are_one_scan(spark: Any, path: str) -> None:
    schema = pa.schema(
        [("p", pa.int32()), ("at", pa.timestamp("us")), ("on", pa.timestamp("us", "UTC")), ("id", pa.int64())]
    )
    table = PaimonTable.create(path, schema, ["p", "at", "on", "id"], ["p", "at", "on"], VECTORS)

    def of(ids: Any) -> pa.Table:
        moments = [i % 50 * 3_600_000_000 - 10**14 for i in ids]
        return pa.table([[i % 50 for i in ids], moments, moments, list(ids)], schema=schema)

    table.append(of(range(500)))
    table.compact(full=True)
    table.append(of(range(0, 500, 7)))
    table.compact()
    plan = plan_of(table)
    assert len({f.partition for f in plan.files}) == 50
    assert any(f.deletion for f in plan.files)
    df = assert_native(spark, table)
    assert _plan(df).count("FileScan parquet") == 2
    assert_native(spark, table, ["id"], [("p", "in", [3, 4])])
    assert len({f.partition for f in plan_of(table, filters=[("p", "in", [3, 4])]).files}) == 2


@pytest.mark.parametrize("seed", range(4 if ALL else 2))
def test_random_tables(spark: Any, path: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(native_local, "FILE_BYTES", 0)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.int32(), nullable=False)]).append(
        pa.field("z", pa.float64())
    )
    for name, type_ in VALUE_TYPES.items():
        schema = schema.append(pa.field(name, type_))
    options = {
        "bucket": str(rng.randrange(1, 4)),
        "deletion-vectors.enabled": rng.choice(["true", "false"]),
        "merge-engine": rng.choice(["deduplicate", "partial-update"]),
        "write-only": "true",
        "parquet.block.size": "1",
    }
    partitions = rng.choice([[], ["p"]])
    table = PaimonTable.create(path, schema, ["id", *partitions], partitions, options)
    for _ in range(rng.randrange(2, 6)):
        made = []
        for _ in range(rng.randrange(1, 60)):
            row = {n: None if rng.random() < 0.2 else _value(rng, t) for n, t in VALUE_TYPES.items()}
            made.append({"id": rng.randrange(100), "p": rng.randrange(3), "z": float("nan"), **row})
        table.append(pa.Table.from_pylist(made, schema))
        if rng.random() < 0.6:
            table.compact(full=rng.random() < 0.3)
    for snapshot in table.snapshots():
        assert_native(spark, table, **{"scan.snapshot-id": str(snapshot.id)})
    columns = rng.sample(schema.names, 5)
    assert_native(spark, table, columns)
    for filters in (
        [("id", "<=", 50), ("z", ">", 1.0)],
        [("double", ">=", 0.0)],
        [("money", "<", "0.50")],
        [("micro", ">", "2000-01-01T00:00:00")],
        [("instant", "<=", "2000-01-01T00:00:00Z")],
        [("day", "!=", "2000-01-01"), ("flag", "=", True)],
        [[("text", ">=", "a")], [("bytes", "<", "80")], [("row", "is null")]],
        [("milli", "is not null"), ("real", "in", [1.5, -2.25])],
    ):
        assert_native(spark, table, columns, filters)


def test_nan_is_the_greatest_value_whatever_the_bounds_say(spark: Any, path: str) -> None:
    row = pa.struct([("x", pa.float32())])
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("g", pa.float32()), ("r", row)])
    table = PaimonTable.create(path, schema, ["id"])
    nan = float("nan")
    values = [(1, 1.0), (2, nan), (3, None), (4, -0.0)]
    table.overwrite(pa.Table.from_pylist([{"id": i, "f": v, "g": v, "r": {"x": v}} for i, v in values], schema))
    df = paimon_spark.read(spark, path, ["id", "f", "g"])
    assert plan_of(table, ["id", "f", "g"]).files
    for column in ("f", "g"):
        assert rows(df.where(f"{column} > 5").select("id")) == [(2,)]
        assert rows(df.where(f"{column} = 0").select("id")) == [(4,)]
        assert rows(df.where(f"{column} = double('NaN')").select("id")) == [(2,)]
    assert rows(paimon_spark.read(spark, path).where("r.x > 5").select("id")) == [(2,)]
    assert_native(spark, table, filters=[("f", ">", 5.0)])


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_milliseconds_compare_with_microseconds(spark: Any, path: str, unit: str) -> None:
    instant = pa.timestamp(unit, "UTC")
    schema = pa.schema([("id", pa.int64()), ("t", instant), ("r", pa.struct([("t", instant)]))])
    table = PaimonTable.create(path, schema, ["id"])
    table.overwrite(pa.table([[1], [1], [{"t": 1}]], schema=schema))
    assert plan_of(table, ["id", "t"]).files
    assert_native(spark, table, ["id", "t"], [("t", "=", "1970-01-01T00:00:01Z" if unit == "s" else 1)])
    later = "timestamp_micros(1000001)" if unit == "s" else "timestamp_micros(1001)"
    for df in (paimon_spark.read(spark, path, ["id", "t"]), paimon_spark.read(spark, path).select("id", "r.t")):
        for condition in (f"t < {later}", f"t != {later}", f"t not in ({later})", f"t <= {later}"):
            assert rows(df.where(condition).select("id")) == [(1,)]
        assert df.where(f"t >= {later}").count() == 0


def test_older_schemas_are_read_by_field_id(spark: Any, path: str) -> None:
    schema = pa.schema(
        [
            pa.field("k", pa.int32(), nullable=False),
            ("a", pa.int32()),
            ("b", pa.string()),
            ("c", pa.float32()),
            ("d", pa.decimal128(5, 2)),
        ]
    )
    table = PaimonTable.create(path, schema, ["k"], options=VECTORS)

    def fill(keys: range) -> None:
        names = table.schema.names
        texts = [pa.array([str(i + j) for i in keys]) for j in range(len(names))]
        table.append(pa.table([t.cast(f.type) for t, f in zip(texts, table.schema, strict=True)], schema=table.schema))
        table.compact()

    fill(range(500))
    # a is renamed and widened, b dropped and added again, c widened, d gets digits; then a becomes text.
    first = [(0, "k", "INT NOT NULL"), (3, "c", "DOUBLE"), (1, "a2", "BIGINT"), (4, "d", "DECIMAL(12, 4)")]
    table = evolved(table, *first, (5, "b", "STRING"))
    fill(range(490, 520))
    assert len({f.columns for f in plan_of(table).files}) == 2
    assert not plan_of(table).rest
    df = assert_native(spark, table)
    assert df.where("b is null").count() == 490
    assert rows(df.where("a2 > 515").select("k")) == [(514,), (515,), (516,), (517,), (518,), (519,)]
    assert_native(spark, table, ["b", "a2"], [("a2", ">", 300), ("d", "<", "350")])
    table = evolved(table, *first[:2], (1, "a2", "STRING"), first[3], (5, "b", "STRING"))
    assert not plan_of(table).files
    assert plan_of(table, ["k", "c"]).files
    assert_native(spark, table)
    assert_native(spark, table, ["k", "c"])
    assert_native(spark, table, **{"scan.snapshot-id": "2"})


@pytest.mark.parametrize(
    "names", [("a b", "a.b", "`", "sum(id)", " x ", "*"), ("file", "position", "key", "words"), ("É", "0", "x'")]
)
def test_names_of_columns(spark: Any, path: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)])
    table = PaimonTable.create(path, schema, ["id"], options=PARTLY)
    described = tuple(replace(f, description=f"the {f.name}") for f in table.table_schema.fields)
    assert table.metadata.schemas.create(replace(table.table_schema, id=1, fields=described))
    table = PaimonTable.open(path)
    for ids in (range(20), range(0, 20, 4)):
        table.append(pa.table([list(ids)] * len(schema), schema=schema))
        table.compact()
    assert any(f.deletion for f in plan_of(table).files)
    assert_native(spark, table, filters=[(names[0], ">", 3)])
    table.append(pa.table([[3]] * len(schema), schema=schema))
    monkeypatch.setattr(native_local, "FILE_BYTES", 0)
    assert plan_of(table).rest
    assert_native(spark, table)


@pytest.mark.parametrize("names", [("v", "V"), ("s", "ſ"), ("İ", "i"), ("v", "_metadata"), ("v", POSITION)])
def test_names_that_spark_would_confuse_go_through_python(spark: Any, path: str, names: tuple[str, str]) -> None:
    schema = pa.schema([("id", pa.int64()), (names[0], pa.int64()), (names[1], pa.int32())])
    table = PaimonTable.create(path, schema, ["id"])
    table.overwrite(pa.table([[1], [2], [3]], schema=schema))
    assert not plan_of(table).files
    assert [tuple(row) for row in paimon_spark.read(spark, path).collect()] == [(1, 2, 3)]


def test_vectors_that_are_too_large_go_through_python(spark: Any, path: str) -> None:
    table = _with_vectors(path, 200)
    size = "scan.native.broadcast-size"
    assert len(plan_of(table, **{size: "1 kb"}).files) == 2
    plan = plan_of(table, **{size: "1 b"})
    assert [f.deletion for f in plan.files] == [None]
    assert len(plan.rest) == 1
    assert_native(spark, table, **{size: "1 b"})
    assert not plan_of(table, **{"scan.native": "false"}).files
    assert_native(spark, table, **{"scan.native": "false"})


def _with_three_levels(path: str) -> PaimonTable:
    """A compacted table of 20,000 ids, one of them newer and another newer yet."""
    table = PaimonTable.create(path, KEYED, ["id"], options=VECTORS)
    for ids in (range(20_000), [7_000], [12_345]):
        table.append(_keyed(ids))
        table.compact()
    return table


def test_bitmaps_mask_files_and_a_join_where_they_are_large(spark: Any, path: str) -> None:
    table = _with_three_levels(path)
    plan = str(assert_native(spark, table)._jdf.queryExecution().toString())
    assert "[Ljava.util.BitSet;@" in plan
    assert not re.search("Subquery|Join|Adaptive", plan)
    assert len(plan) < 20_000
    sparse = {"scan.native.broadcast-size": "2 kb"}
    assert not plan_of(table, **sparse).rest
    assert "Join" in _plan(assert_native(spark, table, **sparse))


@pytest.mark.parametrize(
    ("module", "what", "other"),
    [
        (native_parquet, "_PLANS", "org.apache.spark.no.such.plans"),
        (native_parquet, "_DATASET", "java.lang.String"),
        (native_parquet, "SOURCES", "java.util"),
        (native_bitsets, "_ARRAYS", "java.lang.String"),
        (native_bitsets, "SETS", "java.lang.NoSuchClass"),
    ],
)
def test_where_spark_has_other_classes_its_public_reader_and_a_join_do_the_same(
    spark: Any, path: str, module: Any, what: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _with_three_levels(path)
    monkeypatch.setattr(module, what, other)
    is_planned.cache_clear()
    try:
        assert not is_planned(spark)
        plan = str(assert_native(spark, table)._jdf.queryExecution().toString())
        assert "Join" in plan
        assert "BitSet" not in plan
        file = plan_of(table).files[0].path
        with pytest.raises(FileNotFoundError, match="no-such-file"):
            open_parquet(spark, StructType([StructField("id", LongType())]), [file, f"{file}.no-such-file"])
        Path(file).unlink()
        with pytest.raises(NotFound, match=re.escape(file)):
            paimon_spark.read(spark, table.path)
    finally:
        monkeypatch.undo()
        is_planned.cache_clear()
    assert is_planned(spark)


def test_a_missing_file_is_an_error_when_a_scan_is_opened(spark: Any, path: str) -> None:
    file = plan_of(_with_vectors(path)).files[0].path
    missing = f"{file}.no-such-file"
    for kind in (PlannedScan, PublicScan):
        schema = StructType([StructField("id", LongType())]).json()
        assert kind.of(spark, schema, [f"file://{file}"]).select(["id"]).count() > 0
        with pytest.raises(FileNotFoundError, match=re.escape(missing)):
            kind.of(spark, schema, [f"file://{file}", f"file://{missing}"])


def test_positions_are_in_no_file_of_ours_where_spark_encrypts_files(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file(**_: Any) -> None:
        raise AssertionError("a file is made")

    table = _with_three_levels(path)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", no_file)
    with pytest.raises(AssertionError, match="a file is made"):
        paimon_spark.read(spark, table.path)
    monkeypatch.setattr(spark.sparkContext, "_encryption_enabled", True)
    assert "BitSet" in _plan(assert_native(spark, table))


def test_sets_in_the_jvm_are_those_given(spark: Any) -> None:
    sets = [None, *(np.array(words, np.int64) for words in ([1], [0, -1], [-(2**63), 0, 3, 0], [])), None]
    there = native_bitsets._jvm_sets(spark.sparkContext, serialized(sets))
    assert len(there) == len(sets)
    for given, found in zip(sets, there, strict=True):
        assert (found is None) == (given is None)
        if given is not None:
            assert np.frombuffer(found.toByteArray().ljust(given.nbytes, b"\0"), "<i8").tolist() == given.tolist()


def test_a_question_without_an_answer_is_an_error(spark: Any) -> None:
    sets = serialized([np.array([0b101]), None])
    asked = {("0", "0"): True, ("0", "1"): False, ("0", "2"): True, ("0", "64"): False}
    for (slot, position), answer in asked.items():
        assert contains(spark, sets, slot, position, "").eval(None) is answer
    for slot, position in (("1", "0"), ("0", "CAST(NULL AS INT)")):
        with pytest.raises((PySparkException, Py4JJavaError), match="no such row"):
            contains(spark, sets, slot, position, "no such row").eval(None)


def test_a_few_rows_without_vectors_are_masked_with_the_others(spark: Any, path: str) -> None:
    table = _with_vectors(path, 2000)
    masked, others = (
        sum(f.file.row_count for f in plan_of(table).files if bool(f.deletion) is d) for d in (True, False)
    )
    assert others * 2 < masked < others * 8
    assert _plan(assert_native(spark, table)).count("FileScan parquet") == 2
    few = PaimonTable.create(f"{path}-few", KEYED, ["id"], options={"bucket": "1", "deletion-vectors.enabled": "true"})
    for ids in (range(900), range(0, 900, 9)):
        few.append(_keyed(ids))
        few.compact()
    assert len(plan_of(few).files) == 2
    assert _plan(assert_native(spark, few)).count("FileScan parquet") == 1


def test_a_row_that_no_bitmap_knows_is_an_error(spark: Any, path: str) -> None:
    plan = plan_of(_with_vectors(path, bucket="2"))
    masked = [f for f in plan.files if f.deletion]
    file = masked[0]
    columns = StructType([StructField("id", LongType()), StructField(POSITION, LongType())])
    found = open_parquet(spark, columns, [file.path])
    assert isinstance(found, PlannedScan)
    for size, right in ((file.file.size, True), (file.file.size + 1, False)):
        bitmaps = Bitmaps.of([(file.file._replace(size=size), DeletionVector(BitMap([0, 1])))])
        kept = found.where(is_live(spark, bitmaps)).select(["id"])
        if right:
            assert kept.count() == file.file.row_count - 2
        else:
            with pytest.raises((PySparkException, Py4JJavaError), match="not in the deletion vectors"):
                kept.count()


def test_a_masked_file_of_another_size_is_damaged(spark: Any, path: str) -> None:
    """In bytes, by which its bitmap is found, or in rows: the bits behind those of its bitmap are those of the next."""
    table = _with_vectors(path, bucket="2")
    plan = plan_of(table)
    file = max(plan.files, key=lambda f: f.file.row_count)
    for more in (-1, 1):
        wrong = replace(file, file=file.file._replace(row_count=file.file.row_count + more))
        with pytest.raises(CorruptFile, match=f"it has {file.file.row_count} rows"):
            NativeScan(spark, NativePlan(table.scan(), (), (wrong,))).frame()
    with Path(file.path).open("ab") as data:
        data.write(b"x")
    with pytest.raises(CorruptFile, match=f"{re.escape(file.path)}.* it is {file.file.size + 1} bytes"):
        paimon_spark.read(spark, table.path)


def test_bitmaps_of_many_files(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether their sizes differ in few bits or only in many."""
    table = _with_vectors(path, 400, bucket="9")
    masked = [f.file.size for f in plan_of(table).files if f.deletion]
    assert len(masked) > 8
    for fewest in (1, 1 << 12):
        monkeypatch.setattr(native_bitmaps, "_FEWEST_SLOTS", fewest)
        assert are_told_apart(masked)
        assert "Join" not in _plan(assert_native(spark, table))
    monkeypatch.setattr(native_bitmaps, "_FEWEST_SLOTS", 1)
    monkeypatch.setattr(native_bitmaps, "_MOST_SLOTS", 4)
    assert not are_told_apart(masked)
    assert "Join" in _plan(assert_native(spark, table))


def test_the_bits_of_files_of_many_lengths(spark: Any, path: str) -> None:
    (file, *_) = (f.file for f in plan_of(_with_vectors(path)).files)
    rng = random.Random(7)
    vectors = []
    for number, count in enumerate([1, 63, 64, 65, 4096, 4097, 1, 100_000, 65_536, 40_000, 2]):
        deleted = BitMap(rng.sample(range(count), rng.randint(1, count)))
        vectors.append((file._replace(size=10_000 + 7 * number, row_count=count), DeletionVector(deleted)))
    rng.shuffle(vectors)
    slots, sets = Bitmaps.of(vectors)
    assert len(sets) < slots + sum(bitmap_bytes(file.row_count) for file, _ in vectors) + 32 * len(vectors) + 128
    there = native_bitsets._jvm_sets(spark.sparkContext, sets)
    assert len(there) == slots
    for file, vector in vectors:
        bits = np.frombuffer(there[file.size & (slots - 1)].toByteArray(), np.uint8)
        assert np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist() == list(vector.bitmap)


def test_texts_reach_the_jvm_one_by_one(spark: Any) -> None:
    jvm = spark.sparkContext._jvm
    for texts in (["one"], ["a", "b c", "`d``e`", "ü\n"], ["a\0b", "c"]):
        found = jvm_strings(jvm, texts)
        assert [found.apply(i) for i in range(found.length())] == texts


def test_which_files_are_told_apart() -> None:
    assert are_told_apart([])
    assert are_told_apart([5])
    assert are_told_apart([5, 5 + (1 << 17)])
    assert not are_told_apart([5, 5 + (1 << 18)])
    assert not are_told_apart([5, 6, 5])
    assert are_told_apart(range(1000, 1256))
    assert not are_told_apart(range(1000, 1257))


def test_every_snapshot_is_read_by_the_same_code(spark: Any, path: str) -> None:
    """What Spark generates, the JVM compiles, and gets faster with use."""
    codes = set()
    for number, count in enumerate((2000, 300)):
        table = _with_vectors(f"{path}-{number}", count, bucket=f"{1 + number}")
        table.compact(full=True)
        table.append(_keyed(range(0, count, 3)))
        table.compact()
        found = paimon_spark.read(spark, table.path)._jdf.queryExecution().debug().codegenToSeq()
        masked = [code for code in (found.apply(i)._2() for i in range(found.size())) if "java.util.BitSet" in code]
        assert len(masked) == 1
        codes |= set(masked)
    assert len(codes) == 1


def test_masked_rows_cached_joined_with_themselves_and_of_a_second_attempt(spark: Any, path: str) -> None:
    df = paimon_spark.read(spark, _with_vectors(path, 300, bucket="2").path)
    expected = [(i,) for i in range(300)]
    cached = df.where("id >= 0").cache()
    for _ in range(2):
        assert rows(cached.select("id")) == expected
    cached.unpersist()
    assert rows(df.alias("a").join(df.alias("b"), "id").select("id")) == expected
    assert rows(df.select("id").mapInArrow(_failing_at_first, "id bigint")) == expected


def _failing_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes all rows on; the first attempt of every task fails after the first batch."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        yield batch
        if context.attemptNumber() == 0:
            raise RuntimeError("this attempt fails")


@pytest.fixture(
    params=[
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        {"spark.sql.caseSensitive": "true"},
        {
            "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
            "spark.sql.timestampType": "TIMESTAMP_NTZ",
            "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
            "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
            "spark.sql.parquet.fieldId.read.enabled": "true",
            "spark.sql.parquet.binaryAsString": "true",
            "spark.sql.files.ignoreMissingFiles": "true",
            "spark.sql.files.ignoreCorruptFiles": "true",
            "spark.sql.ansi.enabled": "false",
        },
        {"spark.sql.parser.quotedRegexColumnNames": "true"},
        {"spark.sql.optimizer.disableHints": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"},
        {"spark.sql.sources.useV1SourceList": "csv"},
    ],
    ids=["rows", "case", "legacy", "patterns", "hints", "v2"],
)
def settings(spark: Any, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    before = {key: spark.conf.get(key, None) for key in request.param}
    for key, value in request.param.items():
        spark.conf.set(key, value)
    yield request.param
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def test_settings_of_the_session_change_no_answer(spark: Any, path: str, settings: dict[str, str]) -> None:
    types = {n: VALUE_TYPES[n] for n in ("text", "bytes", "day", "milli", "micro", "instant", "money", "row", "map")}
    types["t.xt"] = pa.int32()
    schema = pa.schema([("id", pa.int64()), *types.items()])
    table = PaimonTable.create(path, schema, ["id"], options=PARTLY)
    rng = random.Random(1)
    for ids in (range(100), range(0, 100, 9)):
        made = [{"id": i, **{n: _value(rng, t) for n, t in types.items()}} for i in ids]
        old = {"day": -700_000, "milli": -(10**14), "micro": -(10**16), "instant": -(10**16)}
        made.append({"id": -1, **old})
        table.append(pa.table([pa.array([r.get(f.name) for r in made], f.type) for f in schema], schema=schema))
        table.compact()
    table.append(table.read(filters=[("id", "in", [-1, 18, 19])]))
    added = DataField(100, "added", parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    schema = table.table_schema
    assert table.metadata.schemas.create(replace(schema, id=1, fields=(*schema.fields, added), highest_field_id=100))
    table = PaimonTable.open(path)
    assert any(f.deletion for f in plan_of(table).files)
    assert plan_of(table).rest
    assert_native(spark, table)
    assert_native(spark, table, filters=[("instant", "<", "1900-01-01T00:00:00Z")])
    assert_native(spark, table, ["added", "t.xt"], [("id", ">", 50)])
    if "spark.sql.files.ignoreMissingFiles" in settings:
        df = paimon_spark.read(spark, path)
        for file in Path(path).rglob("data-*"):
            file.unlink()
        with pytest.raises(NotFound):
            df.collect()


def test_a_file_that_is_gone_says_reload(spark: Any, path: str) -> None:
    table = _with_vectors(path, 30)
    for file in Path(path).rglob("data-*"):
        file.unlink()
    with pytest.raises(NotFound, match=r"a file of snapshot 4 of the table .* is gone.*load the table again"):
        paimon_spark.read(spark, table.path)


def test_a_snapshot_that_expires_while_it_is_planned_says_reload(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _with_vectors(path, 30)
    plan = NativePlan.of

    def expire_meanwhile(scan: Scan, splits: Sequence[Split]) -> NativePlan:
        planned = plan(scan, splits)
        table.overwrite(_keyed(range(3)))
        assert table.expire_snapshots(1, 1) == 4
        return planned

    monkeypatch.setattr(NativePlan, "of", expire_meanwhile)
    with pytest.raises(NotFound, match=r"snapshot 4 of the table .* has expired.*load the table again.*tag it"):
        paimon_spark.read(spark, table.path)
    monkeypatch.undo()
    assert paimon_spark.read(spark, table.path).count() == 3


def test_a_damaged_page_is_an_error(spark: Any, path: str) -> None:
    table = PaimonTable.create(path, KEYED, ["id"], options={"bucket": "1", "file.compression": "none"})
    table.overwrite(_keyed(range(5000)))
    (file,) = Path(path).rglob("data-*")
    content = bytearray(file.read_bytes())
    at = content.index(b"n4321")
    content[at + 1 : at + 5] = b"9999"
    file.write_bytes(content)
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)checksum|crc"):
        paimon_spark.read(spark, path).agg({"name": "max"}).collect()


def test_an_empty_table_and_one_without_raw_files(spark: Any, path: str) -> None:
    table = PaimonTable.create(path, KEYED, ["id"], options={"bucket": "1"})
    assert_native(spark, table)
    table.append(_keyed(range(5)))
    table.append(_keyed(range(3)))
    assert not plan_of(table).files
    assert_native(spark, table)
    table.overwrite(_keyed([]).slice(0, 0), dynamic=False)
    assert_native(spark, table)


def test_another_session_than_the_active_one(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _with_vectors(path, 30)
    table.append(_keyed([3, 30]))
    monkeypatch.setattr(native_local, "FILE_BYTES", 0)
    assert paimon_spark.read(spark, path).count() == 31
    other = spark.newSession()
    df = paimon_spark.read(other, path)
    assert df.sparkSession is other
    assert df.count() == 31
    active = spark._jvm.org.apache.spark.sql.SparkSession.active()
    assert active.sessionUUID() == spark._jsparkSession.sessionUUID()


def test_one_dataframe_used_twice(spark: Any, path: str) -> None:
    table = _with_vectors(path, 30)
    table.append(_keyed([3, 30]))
    df = paimon_spark.read(spark, table.path)
    low, high = df.where("id < 20"), df.where("id > 10")
    assert low.union(high).count() == 40
    assert sorted(r.id for r in low.join(high, "id").select("id").collect()) == list(range(11, 20))
    assert df.where("id > 25").count() == 5
    assert df.count() == 31
    assert df.join(df.withColumnRenamed("v", "w"), "id").count() == 31
    assert rows(df) == rows(load(spark, path))


def test_threads_that_open_many_files_leave_the_session_as_it_was(spark: Any, path: str) -> None:
    table = PaimonTable.create(path, KEYED, ["id"], options={"bucket": "40"})
    table.overwrite(_keyed(range(1000)))
    assert len(plan_of(table).files) > _LISTED
    before = spark.conf.get(_LISTING_THRESHOLD)
    with ThreadPoolExecutor(4) as threads:
        counts = list(threads.map(lambda _: paimon_spark.read(spark, path).count(), range(8)))
    assert counts == [1000] * 8
    assert spark.conf.get(_LISTING_THRESHOLD) == before


def test_numbers_of_files_are_sparks(spark: Any) -> None:
    names = ["", "a", "data-ü.parquet", *("x" * n for n in range(3, 70)), f"data-{uuid.UUID(int=7)}-12.parquet"]
    frame = spark.createDataFrame([(name,) for name in names], "name string").selectExpr("xxhash64(name)")
    assert [row[0] for row in frame.collect()] == [file_number(name) for name in names]


def test_where_a_table_is(spark: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/a b%20c/d{{e,f}}=ü#?"
    table = _with_vectors(path, 30)
    assert plan_of(table).files
    assert pc.sum(assert_native(spark, table).toArrow()["id"]).as_py() == sum(range(30))


@pytest.mark.parametrize("name", ["a", "é"])
def test_names_that_the_jvm_cannot_write_go_through_python(spark: Any, tmp_path: Path, name: str) -> None:
    table = _with_vectors(f"{tmp_path}/{name}", 30)
    system = spark._jvm.System
    encoding = system.setProperty("sun.jnu.encoding", "ANSI_X3.4-1968")
    try:
        df = assert_native(spark, table)
    finally:
        system.setProperty("sun.jnu.encoding", encoding)
    assert ("FileScan parquet" in _plan(df)) == name.isascii()
