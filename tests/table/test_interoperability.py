"""What we write, Java and pypaimon read the same; and we read the table after they went on writing it."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows
from tests.peers.referee import Pypaimon

KEY_TYPES: dict[str, pa.DataType] = {
    "tiny": pa.int8(),
    "small": pa.int16(),
    "int": pa.int32(),
    "big": pa.int64(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "money": pa.decimal128(10, 2),
    "wide": pa.decimal128(30, 4),
    "milli": pa.timestamp("ms"),
    "micro": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
}
VALUE_TYPES: dict[str, pa.DataType] = {
    **KEY_TYPES,
    "list": pa.list_(pa.field("element", pa.int32())),
    "map": pa.map_(pa.string(), pa.int64()),
    "row": pa.struct([("x", pa.int32()), ("y", pa.string())]),
}
EPOCH = datetime.datetime(1970, 1, 1)


def _value(rng: random.Random, type_: pa.DataType) -> Any:
    if pa.types.is_boolean(type_):
        return rng.random() < 0.5
    if pa.types.is_integer(type_):
        return rng.choice(
            [rng.randrange(-5, 5), rng.randrange(-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1))]
        )
    if pa.types.is_floating(type_):
        return rng.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float(rng.randrange(100)), 3.0e10])
    if pa.types.is_string(type_):
        return rng.choice(["", "a", "a\0", "Ünï", "日本語", "😀", "x" * rng.randrange(30)]) + str(rng.randrange(9))
    if pa.types.is_binary(type_):
        return bytes(rng.randrange(256) for _ in range(rng.randrange(12)))
    if pa.types.is_date(type_):
        return datetime.date(1960, 1, 1) + datetime.timedelta(days=rng.randrange(40_000))
    if pa.types.is_decimal(type_):
        digits = rng.randrange(1, type_.precision)
        return Decimal(rng.randrange(-(10**digits), 10**digits)).scaleb(-type_.scale)
    if pa.types.is_timestamp(type_):
        moment = EPOCH + datetime.timedelta(milliseconds=rng.randrange(-(10**12), 2 * 10**12))
        micros = rng.randrange(1000) if type_.unit == "us" else 0
        return moment + datetime.timedelta(microseconds=micros)
    return _nested(rng, type_)


def _key(rng: random.Random, type_: pa.DataType) -> Any:
    """A value for a key column: without -0.0, which Java 0.9 sorts before 0.0 but takes for equal to it."""
    value = _value(rng, type_)
    return 0.0 if pa.types.is_floating(type_) and value == 0 else value


def _nested(rng: random.Random, type_: pa.DataType) -> Any:
    if pa.types.is_list(type_):
        return [_value(rng, type_.value_type) if rng.random() < 0.8 else None for _ in range(rng.randrange(4))]
    if pa.types.is_map(type_):
        return [(f"k{i}", rng.choice([None, i])) for i in range(rng.randrange(3))]
    # Java 0.9 takes a ROW whose members are all null for a null ROW.
    return {"x": rng.choice([None, 1, 2]), "y": rng.choice(["", "yy"])}


def _batch(rng: random.Random, schema: pa.Schema, keys: set[str], keyspace: list[list[Any]], rows: int) -> pa.Table:
    chosen = [rng.choice(keyspace) for _ in range(rows)]
    columns = []
    position = 0
    for field in schema:
        if field.name in keys:
            columns.append(pa.array([key[position] for key in chosen], field.type))
            position += 1
        else:
            columns.append(
                pa.array([None if rng.random() < 0.4 else _value(rng, field.type) for _ in chosen], field.type)
            )
    return pa.table(columns, schema=schema)


def _random_table(rng: random.Random, path: Path) -> tuple[PaimonTable, pa.Schema, list[str], list[list[Any]]]:
    key_names = [f"k_{name}" for name in rng.sample(sorted(KEY_TYPES), rng.randrange(1, 4))]
    values = [f"v_{name}" for name in rng.sample(sorted(VALUE_TYPES), rng.randrange(1, 8))]
    order = key_names + values
    rng.shuffle(order)
    types = {**{f"k_{n}": t for n, t in KEY_TYPES.items()}, **{f"v_{n}": t for n, t in VALUE_TYPES.items()}}
    schema = pa.schema([pa.field(name, types[name], nullable=name not in key_names) for name in order])
    partitions = key_names[:1] if len(key_names) > 1 and key_names[0] in ("k_day", "k_text", "k_int", "k_flag") else []
    options = {
        "bucket": str(rng.randrange(1, 4)),
        "merge-engine": rng.choice(["deduplicate", "partial-update"]),
        "file.compression": rng.choice(["zstd", "lz4", "none", "gzip"]).replace("none", "uncompressed"),
        "write-only": "true",
    }
    table = PaimonTable.create(str(path), schema, key_names, partitions, options)
    in_column_order = [name for name in order if name in key_names]
    keyspace = [[_key(rng, types[name]) for name in in_column_order] for _ in range(40)]
    return table, schema, key_names, keyspace


@pytest.mark.parametrize("seed", range(24))
def test_java_reads_what_we_write_and_we_read_what_java_adds(java: JavaPaimon, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "default.db" / "t"
    table, schema, keys, keyspace = _random_table(rng, path)
    for _ in range(rng.randrange(1, 4)):
        table.append(_batch(rng, schema, set(keys), keyspace, rng.randrange(1, 200)))
        assert_same_rows(table.read(), java.read(path))
    java.append(path, _batch(rng, schema, set(keys), keyspace, 50))
    assert_same_rows(table.read(), java.read(path))
    java.compact(path, options={"write-only": "false"})
    table.append(_batch(rng, schema, set(keys), keyspace, 50))
    assert_same_rows(table.read(), java.read(path))


@pytest.mark.parametrize("seed", range(100, 112))
def test_pypaimon_reads_what_we_write_and_we_read_what_it_adds(pypaimon: Pypaimon, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "default.db" / "t"
    table, schema, keys, keyspace = _random_table(rng, path)
    for _ in range(rng.randrange(1, 4)):
        table.append(_batch(rng, schema, set(keys), keyspace, rng.randrange(1, 200)))
        assert_same_rows(table.read(), pypaimon.read(path))
    # pypaimon calls no compression by another name than Java does.
    pypaimon.append(path, _batch(rng, schema, set(keys), keyspace, 50), options={"file.compression": "zstd"})
    assert_same_rows(table.read(), pypaimon.read(path))
    table.append(_batch(rng, schema, set(keys), keyspace, 50))
    assert_same_rows(table.read(), pypaimon.read(path))
