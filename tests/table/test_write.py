"""Writing without Spark: what is refused, what is visible, and how much memory it takes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, InvalidOption, UnsupportedFeature
from paimon_spark.table import PaimonTable

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.decimal128(10, 2)),
        pa.field("count", pa.int32()),
    ]
)


def _table(tmp_path: Path, **options: str) -> PaimonTable:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return PaimonTable.create(str(tmp_path / "t"), SCHEMA, ["id"], options=named)


def _rows(table: PaimonTable, **read: Any) -> list[dict[str, Any]]:
    return sorted(table.read(**read).to_pylist(), key=lambda row: row["id"])


def test_feeds_that_know_some_columns_fill_one_row(tmp_path: Path) -> None:
    table = _table(tmp_path, merge_engine="partial-update")
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    table.append(pa.table({"count": pa.array([7], pa.int8()), "id": [1]}))
    assert _rows(table, columns=["id", "name", "count"]) == [
        {"id": 1, "name": "a", "count": 7},
        {"id": 2, "name": "b", "count": None},
    ]


def test_the_last_of_equal_keys_in_one_batch_wins(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.append(pa.table({"id": [1, 2, 1, 1], "name": ["a", "b", "c", "d"]}))
    assert [(row["id"], row["name"]) for row in _rows(table)] == [(1, "d"), (2, "b")]
    assert table.files().column("record_count").to_pylist() == [2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table({"name": ["a"]}), "primary-key column 'id' is missing"),
        (pa.table({"id": [1], "nam": ["a"]}), "column 'nam' does not exist"),
        (pa.table({"id": [1], "name": [1]}), "column 'name' is int64, which does not fit STRING"),
        (pa.table({"id": pa.array([1, None], pa.int64())}), "column 'id' is BIGINT NOT NULL but has 1 null"),
        (pa.table({"id": [1], "count": [2**40]}), "column 'count': a int64 value does not fit INT"),
        (pa.table([[1], [2]], names=["id", "id"]), "column 'id' is there twice"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(tmp_path: Path, data: pa.Table, message: str) -> None:
    table = _table(tmp_path)
    table.append(pa.table({"id": [5], "name": ["kept"]}))
    before = {p for p in (tmp_path / "t").rglob("*") if p.is_file()}
    with pytest.raises(InvalidInput, match=message):
        table.append(data)
    assert {p for p in (tmp_path / "t").rglob("*") if p.is_file()} == before
    assert [row["name"] for row in _rows(table)] == ["kept"]


def test_a_row_larger_than_the_buffer_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, write_buffer_size="1 kb")
    with pytest.raises(InvalidInput, match="does not fit the write buffer of 1024 bytes"):
        table.append(pa.table({"id": [1, 2], "name": ["ok", "x" * 5000]}))
    assert table.snapshot() is None
    assert not list((tmp_path / "t").rglob("*.parquet"))


def test_what_does_not_fit_the_buffer_goes_to_level_0_early(tmp_path: Path) -> None:
    table = _table(tmp_path, write_buffer_size="64 kb", bucket="3")
    ids = [i % 5000 for i in range(20_000)]
    table.append(pa.table({"id": ids, "name": [f"n{i}" for i in range(20_000)]}))
    assert table.files().num_rows > 3
    assert {(row["id"], row["name"]) for row in _rows(table)} == {(i % 5000, f"n{i}") for i in range(15_000, 20_000)}


def test_the_tasks_of_a_write_never_share_a_sequence_number(tmp_path: Path) -> None:
    table = _table(tmp_path, bucket="1")
    write = table.new_write()
    messages = []
    for number in (2, 0, 1):
        task = write.task(number)
        task.write(pa.table({"id": [1, 10 + number], "name": [f"task {number}", "own"]}))
        messages.append(task.finish())
    write.commit(messages)
    ranges = table.files().select(["min_sequence_number", "max_sequence_number"]).to_pylist()
    numbers = sorted((r["min_sequence_number"], r["max_sequence_number"]) for r in ranges)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(numbers))
    assert _rows(table)[0]["name"] == "task 2"


def test_the_next_write_goes_on_above_the_last(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for i in range(5):
        table.append(pa.table({"id": [1], "name": [f"v{i}"]}))
    assert [row["name"] for row in _rows(table)] == ["v4"]


def test_row_kinds_come_from_the_named_column(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("op", pa.string()))
    options = {"rowkind.field": "op"}
    table = PaimonTable.create(str(tmp_path / "t"), schema, ["id"], options=options)
    table.append(pa.table({"id": [1, 2], "op": ["+I", "+I"]}))
    table.append(pa.table({"id": [1, 2], "op": ["-D", "+U"]}))
    assert [row["id"] for row in _rows(table)] == [2]
    with pytest.raises(InvalidInput, match="holds 'x'; it must be"):
        table.append(pa.table({"id": [1], "op": ["x"]}))
    with pytest.raises(InvalidInput, match="'op' gives the row kind"):
        table.append(pa.table({"id": [1]}))


def test_overwrite_replaces_partitions(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("p", pa.string()), pa.field("id", pa.int64()), pa.field("v", pa.int32())])
    table = PaimonTable.create(str(tmp_path / "t"), schema, ["p", "id"], ["p"], {"bucket": "2"})
    table.append(pa.table({"p": ["a", "a", "b"], "id": [1, 2, 1], "v": pa.array([1, 1, 1], pa.int32())}))

    def rows() -> list[tuple[Any, ...]]:
        return sorted((r["p"], r["id"], r["v"]) for r in table.read().to_pylist())

    table.overwrite(pa.table({"p": ["a"], "id": [9], "v": pa.array([2], pa.int32())}))
    assert rows() == [("a", 9, 2), ("b", 1, 1)]
    assert set(table.files().column("level").to_pylist()) == {0, 5}
    table.overwrite(pa.table({"p": ["b"], "id": [5], "v": pa.array([3], pa.int32())}), partition={"p": "b"})
    assert rows() == [("a", 9, 2), ("b", 5, 3)]
    with pytest.raises(InvalidInput, match="outside of the overwritten partition"):
        table.overwrite(pa.table({"p": ["a"], "id": [5]}), partition={"p": "b"})
    table.overwrite(schema.empty_table(), partition={"p": "b"})
    assert rows() == [("a", 9, 2)]
    table.overwrite(pa.table({"p": ["c"], "id": [1]}), dynamic=False)
    assert rows() == [("c", 1, None)]
    table.overwrite(schema.empty_table())
    assert rows() == [("c", 1, None)]


def test_immutable_options_of_a_table_cannot_be_overridden(tmp_path: Path) -> None:
    table = _table(tmp_path, bucket="2")
    PaimonTable.open(table.path, {"bucket": "2", "primary-key": "id"})
    with pytest.raises(InvalidOption, match="bucket"):
        PaimonTable.open(table.path, {"bucket": "3"})
    with pytest.raises(InvalidInput, match="there is a Paimon table"):
        _table(tmp_path)


def test_what_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="aggregation"):
        _table(tmp_path, merge_engine="aggregation")
    with pytest.raises(UnsupportedFeature, match="bucket"):
        _table(tmp_path, bucket="-1")
    assert not PaimonTable.exists(str(tmp_path / "t"))


def test_filters_projection_and_time_travel(tmp_path: Path) -> None:
    table = _table(tmp_path, bucket="4")
    table.append(pa.table({"id": list(range(100)), "count": pa.array(range(100), pa.int32())}))
    table.append(pa.table({"id": list(range(50)), "count": pa.array([1000] * 50, pa.int32())}))
    assert _rows(table, columns=["count", "id"], filters=[("id", "==", 7)]) == [{"count": 1000, "id": 7}]
    assert len(table.scan(filters=[("id", "==", 7)]).splits) == 1
    assert [r["id"] for r in _rows(table, filters=[("count", "<", 60)])] == list(range(50, 60))
    assert [r["id"] for r in _rows(table, filters=[[("id", "<", 2)], [("id", ">", 97)]])] == [0, 1, 98, 99]
    assert len(_rows(table, filters=[("count", "<", 60)], options={"scan.snapshot-id": "1"})) == 60
    with pytest.raises(InvalidInput, match="column 'nope' does not exist"):
        table.read(columns=["nope"])
