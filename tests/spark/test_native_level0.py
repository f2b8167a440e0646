"""Native reads of compacted tables with a few rows in level 0: what goes to Spark, and that all is there."""

from __future__ import annotations

import logging
import pickle
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import CorruptFile, InvalidInput, NotFound
from paimon_spark.read.scan import Scan
from paimon_spark.spark import native_level0, native_local
from paimon_spark.spark.native_plan import NativePlan
from paimon_spark.spark.native_rest import pinned, rest_scan
from paimon_spark.spark.options import COLUMNS, columns_json
from tests.compact.test_random_compactions import CASES, SCHEMA, Rows, drawn_options
from tests.java.rows import assert_same_rows
from tests.sizes import seeded, sized
from tests.spark.native import assert_native, both_parts, evolved, plan_of
from tests.spark.versions import newest_only

VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
PLAIN = {"bucket": "1", "write-only": "true"}
KEYED = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("name", pa.string())])


def _keyed(ids: Sequence[int], v: int | None = None) -> pa.Table:
    return pa.table({"id": ids, "v": [v] * len(ids), "name": [f"n{i}" for i in ids]}, KEYED)


def _compacted(path: str, count: int = 800, **options: str) -> PaimonTable:
    """A table of ids below ``count`` above level 0."""
    table = PaimonTable.create(path, KEYED, ["id"], options=VECTORS | options)
    table.append(_keyed(range(count), 1))
    table.compact(full=True)
    return table


@newest_only
@pytest.mark.parametrize("number", range(sized(10, 2000)))
def test_both_parts_of_random_tables_are_the_table(tmp_path: Path, number: int) -> None:
    rng = seeded(f"level 0 {number}")
    case = CASES[number % len(CASES)]
    options = drawn_options(rng, case, 2000) | {"write-only": "true", "target-file-size": rng.choice(["20 kb", "1 gb"])}
    print(options)
    made = Rows(rng, case)
    table = PaimonTable.create(str(tmp_path / "t"), SCHEMA, ["b", "k"], rng.choice([[], ["b"]]), options)

    def append(keys: list[int]) -> None:
        table.append(pa.Table.from_pylist(made.make(keys), SCHEMA))

    append(rng.sample(range(1000), 800))
    table.compact(full=True)
    append(rng.choices(range(1100), k=rng.choice([10, 300])))
    table.compact(full=rng.random() < 0.3)
    ways = set()
    for _ in range(4):
        low = rng.choice([0, 0, 500])
        append(rng.choices(range(low, 1100), k=rng.choice([1, 5, 20])))
        for columns, filters in [
            (None, None),
            (rng.sample(SCHEMA.names, 3), None),
            (["x", "k"], [("a", ">", 3)]),
            (["c"], [("k", "<=", 300), ("x", "!=", 2)]),
        ]:
            bound = {"scan.native.broadcast-size": rng.choice(["64 mb", "64 mb", "1 kb", "600 b"])}
            plan, rows = both_parts(table, columns, filters, **bound)
            assert_same_rows(rows, table.read(columns, filters))
            ways.add((bool(plan.files), bool(plan.rest)))
            ways.add(bool(plan.hidden))
    if options["deletion-vectors.enabled"] == "true":
        assert (True, True) in ways
        assert True in ways


@pytest.mark.parametrize("number", range(sized(6, 500)))
def test_random_tables_of_which_the_newest_record_decides(path: str, number: int) -> None:
    rng = seeded(f"newest records {number}")
    options = {"bucket": rng.choice(["1", "2"]), "deletion-vectors.enabled": rng.choice(["true", "false"])}
    table = PaimonTable.create(path, KEYED, ["id"], options={"write-only": "true", **options})
    model: dict[int, tuple[int, str]] = {}

    def append(ids: list[int]) -> None:
        v = rng.randrange(100)
        names = ["n" * rng.randrange(9) for _ in ids]
        table.append(pa.table([ids, [v] * len(ids), names], schema=KEYED))
        model.update({id_: (v, name) for id_, name in zip(ids, names, strict=True)})

    append(rng.sample(range(3000), 2000))
    table.compact(full=True)
    native = 0
    for _ in range(8):
        append(rng.sample(range(rng.choice([0, 1500]), 3300), rng.choice([1, 5, 20, 70])))
        plan, rows = both_parts(table)
        assert {row["id"]: (row["v"], row["name"]) for row in rows.to_pylist()} == model
        assert rows.num_rows == len(model)
        for filters in ([("id", ">", rng.randrange(3000))], [("v", "<", 50)], [("v", "=", 3), ("id", "<=", 999)]):
            assert_same_rows(both_parts(table, ["name"], filters)[1], table.read(["name"], filters))
        native += sum(f.file.level == 0 and bool(plan.hidden) for f in plan.files)
        if rng.random() < 0.5:
            table.compact(full=rng.random() < 0.5)
    assert native


@pytest.mark.parametrize("options", [VECTORS, PLAIN], ids=["vectors", "plain"])
def test_keys_that_are_told_apart_by_their_bits(path: str, options: dict[str, str]) -> None:
    schema = pa.schema([("f", pa.float64()), ("d", pa.decimal128(20, 2)), ("t", pa.string()), ("v", pa.int32())])
    table = PaimonTable.create(path, schema, ["f", "d", "t"], options=options)
    floats = [0.0, -0.0, float("nan"), float("inf"), -1.5]
    keys = [
        (f, d, t) for f in floats for d in ("0.10", "-99999999999999999.99") for t in ("", "a", "a\0", "ü", "z" * 40)
    ]
    _append_keys(table, keys, 1)
    table.compact(full=True)
    _append_keys(table, [keys[7], keys[12], (2.5, "0.10", "a")], 2)
    _append_keys(table, [keys[7], (-0.0, "0.10", "absent")], 3)
    plan, rows = both_parts(table, None, None)
    assert [len(plan.hidden[f.file.name]) for f in plan.files] == [2]
    assert_same_rows(rows, table.read())
    assert rows.num_rows == len(keys) + 2


def _append_keys(table: PaimonTable, keys: Sequence[tuple[float, str, str]], v: int) -> None:
    f, d, t = zip(*keys, strict=True)
    decimals = pa.array(d).cast(table.schema.field("d").type)
    table.append(pa.table([f, decimals, t, [v] * len(keys)], schema=table.schema))


def test_upper_files_are_native(spark: Any, path: str, caplog: pytest.LogCaptureFixture) -> None:
    table = _compacted(path, bucket="4")
    for _ in range(2):
        table.append(_keyed([3, 5, 900]))
    plan = plan_of(table)
    assert len(plan.files) == 4
    assert sum(map(len, plan.hidden.values())) == 2
    assert all(file.level == 0 for split in plan.rest for file in split.files)
    with caplog.at_level(logging.INFO, "paimon_spark"):
        df = assert_native(spark, table)
    masked = len(plan.hidden)
    assert f"4 files through Spark's parquet reader (0 of them with deletion vectors, {masked} without" in caplog.text
    counting = _plan(df.groupBy().count())
    assert "ReadSchema: struct<_tmp_metadata_row_index:bigint>" in counting
    assert re.search(r"Coalesce 1\n.*LocalTableScan", counting)
    table.compact(full=True)
    assert df.where("v is null").count() == 3


@pytest.mark.parametrize(("bound", "limit"), [("FILE_BYTES", 1000), ("ROWS", 3), ("ROW_BYTES", 10)])
def test_the_driver_reads_a_small_rest(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, bound: str, limit: int
) -> None:
    table = _compacted(path, **{"merge-engine": "partial-update"})
    table.append(_keyed([3, 5, 900]))
    assert "paimon-py-rest" not in _plan(paimon_spark.read(spark, path))
    table.append(_keyed([5]))
    monkeypatch.setattr(native_local, bound, limit)
    assert "paimon-py-rest" in _plan(assert_native(spark, table))


@pytest.mark.parametrize("options", [VECTORS, PLAIN], ids=["vectors", "plain"])
def test_a_single_file_of_level_0_is_native_where_the_newest_record_decides(
    spark: Any, path: str, options: dict[str, str]
) -> None:
    table = _compacted(path, **options)
    table.append(_keyed([3, 5, 900], 2))
    plan = plan_of(table)
    assert [f.file.level for f in plan.files] == [0, 5]
    assert not plan.rest
    df = assert_native(spark, table)
    assert "LocalTableScan" not in _plan(df)
    assert "Union" not in _plan(df)
    assert df.where("v = 2").count() == 3
    assert_native(spark, table, ["name"], [("v", "=", 1)])
    assert_native(spark, table, ["v"], [("id", "<=", 4)])


def test_files_of_level_0_of_one_size_cost_no_join(spark: Any, path: str) -> None:
    table = _compacted(path, bucket="8")
    table.append(_keyed(range(16), 2))
    sizes = [file.size for split in table.scan().splits for file in split.files if file.level == 0]
    assert len(set(sizes)) < len(sizes)
    assert not plan_of(table).rest
    df = assert_native(spark, table)
    assert "Join" not in _plan(df)
    assert df.where("v = 2").count() == 16


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"merge-engine": "partial-update"}, {}),
        ({"sequence.field": "v"}, {}),
        ({}, {"delete_row_count": 1}),
        ({}, {"delete_row_count": None}),
        ({}, {"min_sequence": 0}),
        ({}, {"name": "data-ü.parquet"}),
    ],
    ids=str,
)
def test_a_single_file_of_level_0_that_is_merged(path: str, options: dict[str, str], changes: dict[str, Any]) -> None:
    table = _compacted(path, **options)
    table.append(_keyed([3, 5, 900], 2))
    scan = table.scan()
    (split,) = scan.splits
    (section,) = split.sections
    files = tuple(f if f.level else f._replace(**changes) for f in section)
    plan = NativePlan.of(scan, [replace(split, sections=(files,))])
    assert [f.file.level for f in plan.files] == [5]
    assert [file for one in plan.rest for file in one.files if file.level == 0] == [f for f in files if f.level == 0]


def _plan(df: Any) -> str:
    """The physical plan of a DataFrame."""
    return str(df._jdf.queryExecution().sparkPlan().toString())


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate"},
        {"merge-engine": "deduplicate", "sequence.field": "v"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "partial-update", "fields.v.sequence-group": "name"},
        {"merge-engine": "partial-update", "deletion-vectors.enabled": "false"},
    ],
    ids=lambda options: " ".join(options.values()),
)
def test_sparks_rows(spark: Any, path: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = _compacted(path, **options, bucket="2")
    table.append(_keyed(range(0, 800, 9), 2))
    table.compact()
    table.append(_keyed([7, 9, 18, 900]))
    table.append(_keyed([9, 901], 0))
    plan = plan_of(table)
    assert plan.files
    assert plan.rest
    assert_native(spark, table)
    monkeypatch.setattr(native_local, "FILE_BYTES", 0)
    assert_native(spark, table, ["name"], [("v", "<", 2)])
    assert_native(spark, table, ["v"], [("id", "in", [7, 9, 10, 900])])
    fresh = {"deletion-vectors.merge-on-read": "false"}
    assert_native(spark, table, **fresh)


def test_deletes_and_partitions(spark: Any, path: str) -> None:
    schema = pa.schema([("p", pa.string()), ("id", pa.int64()), ("op", pa.string())])
    table = PaimonTable.create(path, schema, ["p", "id"], ["p"], VECTORS | {"rowkind.field": "op"})

    def append(p: str, ids: Sequence[int], op: str) -> None:
        table.append(pa.table([[p] * len(ids), ids, [op] * len(ids)], schema=schema))

    for p in "abc":
        append(p, range(200), "+I")
    table.compact(full=True)
    append("a", [3, 4, 999], "-D")
    append("b", [3], "-D")
    append("b", [3, 5], "+U")
    plan = plan_of(table)
    assert len(plan.files) == 3
    assert len(plan.rest) == 2
    df = assert_native(spark, table)
    assert df.count() == 598
    assert_native(spark, table, ["id"], [("p", "=", "a")])
    assert paimon_spark.read(spark, path, ["id"], [("p", "=", "a"), ("id", "<", 9)]).count() == 7


def test_older_schemas(spark: Any, path: str) -> None:
    table = _compacted(path, **{"merge-engine": "partial-update"})
    fields = [("id", pa.int64()), ("name2", pa.string()), ("v", pa.int64()), ("added", pa.string())]
    renamed = table.table_schema.fields[2]
    assert renamed.name == "name"
    table = evolved(
        table, (0, "id", "BIGINT NOT NULL"), (2, "name2", "STRING"), (1, "v", "BIGINT"), (3, "added", "STRING")
    )
    table.append(
        pa.table([[3, 4, 900], [None, "x", "y"], [10**10, None, 1], ["a", "b", None]], schema=pa.schema(fields))
    )
    plan = plan_of(table)
    assert [len(plan.hidden[f.file.name]) for f in plan.files] == [2]
    df = assert_native(spark, table)
    assert df.where("id = 3").select("name2", "v", "added").collect() == [("n3", 10**10, "a")]


@pytest.mark.parametrize("deletes", [None, 1])
def test_files_that_may_hold_deletes_go_through_python(path: str, deletes: int | None) -> None:
    table = _compacted(path)
    for _ in range(2):
        scan = table.scan()
        assert NativePlan.of(scan, scan.splits).files
        (split,) = scan.splits
        (section,) = split.sections
        files = tuple(f._replace(delete_row_count=deletes) if f.level else f for f in section)
        plan = NativePlan.of(scan, [replace(split, sections=(files,))])
        assert not plan.files
        assert [one.sections for one in plan.rest] == [(files,)]
        table.append(_keyed([3]))


def test_a_file_of_another_buckets_name_goes_through_python(path: str) -> None:
    table = _compacted(path, bucket="2")
    scan = table.scan()
    one, other = scan.splits
    assert len(NativePlan.of(scan, scan.splits).files) == 2
    ((file,),) = one.sections
    (wrong,) = other.files
    for delete_row_count in (0, 1):
        copy = wrong._replace(name=file.name, delete_row_count=delete_row_count)
        plan = NativePlan.of(scan, [one, replace(other, sections=((copy,),))])
        assert not plan.files
        assert [split.files for split in plan.rest] == [(file,), (copy,)]


def test_bounds(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _compacted(path, 800, bucket="1")
    table.append(_keyed(range(100)))
    assert len(plan_of(table).files) == 2
    monkeypatch.setattr(native_level0, "ROWS_SEARCHED", 799)
    assert not plan_of(table).files
    monkeypatch.undo()
    table.append(_keyed([799]))
    plan = plan_of(table)
    assert not plan.files
    assert [len(split.files) for split in plan.rest] == [3]


def test_the_smallest_buckets_are_searched(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("p", pa.int32()), *KEYED])
    table = PaimonTable.create(path, schema, ["p", "id"], ["p"], VECTORS)
    for p, count in ((0, 300), (1, 100), (2, 200)):
        table.append(_keyed(range(count)).add_column(0, "p", pa.array([p] * count, pa.int32())))
    table.compact(full=True)
    table.append(_keyed([1, 1, 1]).add_column(0, "p", pa.array([0, 1, 2], pa.int32())))
    monkeypatch.setattr(native_level0, "ROWS_SEARCHED", 300)
    plan = plan_of(table)
    assert sorted(f.file.row_count for f in plan.files) == [1, 1, 100, 200]
    _, rows = both_parts(table, None, None)
    assert_same_rows(rows, table.read())


def test_masks_that_are_too_large_leave_the_section_to_python(spark: Any, path: str) -> None:
    table = _compacted(path, 20_000, **{"merge-engine": "partial-update"})
    table.append(_keyed([1, 2]))
    size = {"scan.native.broadcast-size": "1 b"}
    assert not plan_of(table, **size).files
    assert_native(spark, table, **size)
    joined = {"scan.native.broadcast-size": "2 kb"}
    assert plan_of(table, **joined).files
    assert "Join" in _plan(assert_native(spark, table, **joined))


def test_a_section_that_is_left_to_python_takes_the_same_place_in_both_plans(path: str) -> None:
    """Its small masks push the mask of another file out of the bound, in the plan of the rest too."""
    schema = pa.schema([("p", pa.string()), *KEYED])
    table = PaimonTable.create(path, schema, ["p", "id"], ["p"], VECTORS | {"merge-engine": "partial-update"})

    def append(p: str, ids: Sequence[int]) -> None:
        table.append(_keyed(ids).add_column(0, "p", pa.array([p] * len(ids))))

    append("covered", range(40_000))
    append("other", range(20_000))
    table.compact(full=True)
    append("covered", range(0, 40_000, 900))
    append("other", range(0, 20_000, 300))
    table.compact()
    append("covered", range(0, 40_000, 2000))
    bound = {"scan.native.broadcast-size": "3000 b"}
    plan, rows = both_parts(table, **bound)
    assert not plan.covered
    assert {f.deletion for f in plan.files} == {None}
    assert {f.deletion is None for f in plan_of(table, filters=[("p", "=", "other")], **bound).files} == {True, False}
    assert_same_rows(rows, table.read())


def test_a_file_of_level_0_stays_with_a_section_that_is_left_to_python(path: str) -> None:
    table = _compacted(path)
    table.append(_keyed([3, 900], 2))
    assert [f.file.level for f in plan_of(table).files] == [0, 5]
    plan, rows = both_parts(table, **{"scan.native.broadcast-size": "1 b"})
    assert not plan.files
    assert_same_rows(rows, table.read())


def test_files_that_vectors_part_need_no_merging_beside_level_0(path: str) -> None:
    table = _compacted(path)
    table.append(_keyed(range(0, 400, 9)))
    table.compact()
    table.append(_keyed([900]))
    assert not plan_of(table).rest
    table.append(_keyed([901, 900]))
    plan, rows = both_parts(table, None, None)
    assert len(plan.files) == 2
    assert all(file.level == 0 for split in plan.rest for file in split.files)
    assert_same_rows(rows, table.read())


def test_only_what_the_merge_needs_is_read_of_upper_files(path: str) -> None:
    table = _compacted(path, 200_000, **{"merge-engine": "partial-update", "target-file-size": "100 kb"})
    table.append(_keyed([3, 199_990]))
    plan = plan_of(table)
    (split,) = plan.rest
    upper = {file.name for file in split.files if file.level > 0}
    assert len(upper) == 2 < len(plan.files)
    assert {name: len(rows) for name, rows in split.chosen.items()} == dict.fromkeys(upper, 1)


def test_only_keys_that_the_filter_wants_are_searched(path: str) -> None:
    table = _compacted(path)
    (upper,) = Path(path).rglob("data-*")
    table.append(_keyed([3, 5, 900]))
    plan = plan_of(table, filters=[("id", ">", 3)])
    assert [list(rows) for rows in plan.hidden.values()] == [[5]]
    for filters in ([("id", "=", 5)], [("id", ">", 3), ("v", "=", 1)], [[("id", "=", 3)], [("v", "is null")]]):
        _, rows = both_parts(table, ["id"], filters)
        assert_same_rows(rows, table.read(["id"], filters))
    upper.unlink()
    assert plan_of(table, filters=[("id", "=", 4)]).files
    with pytest.raises(NotFound):
        _ = plan_of(table, filters=[("id", "=", 5)]).hidden


def test_tasks_get_a_plain_scan(path: str) -> None:
    table = _compacted(path)
    table.append(_keyed([3]))
    scan = table.scan()
    options = {"path": path, COLUMNS: columns_json(scan.columns), **pinned(NativePlan.of(scan, scan.splits))}
    rest = rest_scan(options)
    assert rest.older
    assert type(pickle.loads(pickle.dumps(rest))) is Scan


def test_a_worker_that_plans_otherwise_than_the_driver_reads_nothing(path: str) -> None:
    table = _compacted(path, **{"merge-engine": "partial-update"})
    table.append(_keyed([3]))
    scan = table.scan()
    options = {"path": path, COLUMNS: columns_json(scan.columns), **pinned(NativePlan.of(scan, scan.splits))}
    assert len(rest_scan(options).splits) == 1
    with pytest.raises(InvalidInput, match=r"snapshot 3 of .* differently"):
        _ = rest_scan({**options, "scan.native.broadcast-size": "1 b"}).splits


def test_a_damaged_or_missing_upper_file_is_an_error_at_opening(spark: Any, path: str) -> None:
    table = _compacted(path, **{"file.compression": "none"})
    (upper,) = Path(path).rglob("data-*")
    table.append(_keyed([3]))
    keys = struct.pack("<2q", 400, 401)
    assert upper.read_bytes().count(keys) == 3
    upper.write_bytes(upper.read_bytes().replace(keys, struct.pack("<2q", 400, 402)))
    with pytest.raises(CorruptFile):
        paimon_spark.read(spark, path)
    upper.unlink()
    with pytest.raises(NotFound, match="load the table again"):
        paimon_spark.read(spark, path)
