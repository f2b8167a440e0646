"""Arrow batches get exactly Spark's types, and Spark's get the table's."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from paimon_spark.spark.batches import incoming, outgoing, outgoing_schema
from paimon_spark.spark.types import spark_schema
from paimon_spark.types import DataField, arrow_schema, parse_type

NANOS = [1_999, -1, None, -1_001, 0]
FLOORED_MICROS = [1, -1, None, -2, 0]


def _fields(*types: object) -> list[DataField]:
    return [DataField(i, f"c{i}", parse_type(t)) for i, t in enumerate(types)]


def _sent(fields: list[DataField], columns: list[pa.Array]) -> pa.RecordBatch:
    """A table's batch after it was made Spark's."""
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields))
    expected = outgoing_schema(spark_schema(fields))
    sent = outgoing(batch, expected)
    sent.validate(full=True)
    assert sent.schema.equals(expected)
    return sent


def test_an_equal_batch_is_passed_on_untouched() -> None:
    fields = _fields("BIGINT NOT NULL", "STRING", "TIMESTAMP(6) WITH LOCAL TIME ZONE")
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1]), pa.array(["a"]), pa.array([0], pa.timestamp("us", "UTC"))], schema=arrow_schema(fields)
    )
    assert outgoing(batch, outgoing_schema(spark_schema(fields))) is batch


@pytest.mark.parametrize("zone", ["", " WITH LOCAL TIME ZONE"])
def test_timestamps_become_microseconds_rounded_to_the_past(zone: str) -> None:
    tz = "UTC" if zone else None
    fields = _fields(f"TIMESTAMP(9){zone}", f"TIMESTAMP(3){zone}")
    sent = _sent(
        fields, [pa.array(NANOS, pa.timestamp("ns", tz)), pa.array([1, -1, None, 0, 7], pa.timestamp("ms", tz))]
    )
    assert sent.column(0).view(pa.int64()).to_pylist() == FLOORED_MICROS
    assert sent.column(1).view(pa.int64()).to_pylist() == [1000, -1000, None, 0, 7000]


def test_time_of_day_becomes_its_milliseconds() -> None:
    sent = _sent(_fields("TIME(3)"), [pa.array([dt.time(1, 2, 3, 4000), None])])
    assert sent.column(0).to_pylist() == [3_723_004, None]


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_nested_values_are_rebuilt_with_their_nulls(offset: int) -> None:
    stamp = "TIMESTAMP(9)"
    row = {"type": "ROW", "fields": [{"id": 9, "name": "t", "type": stamp}, {"id": 8, "name": "n", "type": "INT"}]}
    fields = _fields({"type": "ARRAY", "element": row}, {"type": "MAP", "key": "STRING NOT NULL", "value": stamp}, row)
    members = [{"t": dt.datetime(2020, 1, 1), "n": 1}, None, {"t": None, "n": 2}]
    values = [
        [members, None, [], [None], members[:1]],
        [[("a", dt.datetime(1969, 1, 1))], None, [], [("b", None), ("c", dt.datetime(2024, 1, 2))], []],
        [*members, members[0], None],
    ]
    columns = [pa.array(v, f.type).slice(offset) for v, f in zip(values, arrow_schema(fields), strict=True)]
    sent = _sent(fields, columns)
    assert [c.to_pylist() for c in sent.columns] == [v[offset:] for v in values]


def test_a_nullable_request_gets_a_nullable_batch() -> None:
    table = arrow_schema(_fields("BIGINT NOT NULL", {"type": "ARRAY", "element": "INT NOT NULL"}))
    asked = spark.StructType().add("c1", spark.ArrayType(spark.IntegerType())).add("c0", spark.LongType())
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([[1], [2, 3]], table.field(1).type)], schema=table)
    sent = outgoing(batch, outgoing_schema(asked))
    assert sent.schema.equals(outgoing_schema(asked))
    assert sent.to_pydict() == {"c1": [[1], [2, 3]], "c0": [1, 2]}


def test_incoming_timestamps_lose_the_session_time_zone_and_large_types_their_size() -> None:
    zone = "America/New_York"
    moment = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)
    batch = pa.record_batch(
        {
            "at": pa.array([moment, None], pa.timestamp("us", zone)),
            "list": pa.array([[moment], None], pa.large_list(pa.timestamp("us", zone))),
            "s": pa.array(["a", None], pa.large_string()),
            "map": pa.array([[("k", {"b": b"x"})], None], pa.map_(pa.string(), pa.struct([("b", pa.large_binary())]))),
            "time": pa.array([dt.time(0, 0, 1, 999_999), None], pa.time64("ns")),
        }
    )
    utc = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [
            ("at", utc),
            ("list", pa.list_(utc)),
            ("s", pa.string()),
            ("map", pa.map_(pa.string(), pa.struct([("b", pa.binary())]))),
            ("time", pa.time32("ms")),
        ]
    )
    taken = incoming(batch, schema)
    taken.validate(full=True)
    assert taken.schema.equals(schema)
    assert taken.slice(0, 1).to_pylist() == [
        {"at": moment, "list": [moment], "s": "a", "map": [("k", {"b": b"x"})], "time": dt.time(0, 0, 1, 999_000)}
    ]
    assert set(taken.slice(1).to_pylist()[0].values()) == {None}
    assert taken.column("at").buffers()[1].address == batch.column("at").buffers()[1].address
