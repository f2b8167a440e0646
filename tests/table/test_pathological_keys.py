"""Keys at the edges of their types: Java puts them into the same buckets, in the same order, and takes the same for
equal; and both kinds of lookup file find what a merge finds.

Java 0.9 takes -0.0 for 0.0, and NaN for any number that it is compared with; here, as in later versions, -0.0 and 0.0
are two keys, and NaN is equal to NaN alone. So there is no -0.0 among the keys, and NaN among its like only. Timestamps
of more than six digits are not written.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.merge.keys import normalize
from paimon_spark.rows.compact_row import encode
from paimon_spark.table import PaimonTable
from paimon_spark.types import parse_type
from tests.java.referee import JavaPaimon
from tests.lookup.stores import KINDS, reader, writer

SECONDS = (-62_135_596_800, -62_135_596_801, 253_402_300_799, -1, 0, 1, 10**9)
DIGITS = 10**38 - 1


def integers(bits: int) -> list[int]:
    return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1, 0, 1]


FLOATS = [np.inf, -np.inf, 0.0, 1.5, -1.5, -3e38, 3e38]


def decimals(scale: int) -> list[Decimal]:
    return [
        Decimal((sign, tuple(map(int, str(n))), -scale)) for sign in (0, 1) for n in (0, 1, 255, 256, 2**64, DIGITS)
    ]


def instants(unit: str) -> pa.Array:
    times = {"ms": 1000, "us": 10**6}[unit]
    values = [s * times for s in SECONDS] + [1, -1, times - 1, 1 - times]
    return pa.array(sorted(set(values)), pa.timestamp(unit))


TEXTS = ["", "\0", "\0\0", "a", "a\0", "a\0b", "\uffff", "\ue000", "\U0001f986", "\U0010ffff", "é", "e\u0301", "z"]
KEYS: dict[str, tuple[str, pa.Array]] = {
    "texts": ("STRING", pa.array([*TEXTS, "k" * 2**20, "k" * (2**20 - 1), "k" * 7, "k" * 8])),
    "bytes": ("BYTES", pa.array([b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"\xff\0", b"a"], pa.binary())),
    "flags": ("BOOLEAN", pa.array([True, False])),
    "tinyint": ("TINYINT", pa.array(integers(8), pa.int8())),
    "smallint": ("SMALLINT", pa.array(integers(16), pa.int16())),
    "int": ("INT", pa.array(integers(32), pa.int32())),
    "bigint": ("BIGINT", pa.array(integers(64), pa.int64())),
    "float": ("FLOAT", pa.array([*FLOATS, 1e-45, -1e-45], pa.float32())),
    "double": ("DOUBLE", pa.array([*FLOATS, 5e-324, -5e-324, 1.7e308])),
    "float NaN": ("FLOAT", pa.array(np.array([0x7FC00000, 0xFFC00001, 0x7FC12345], "u4").view("f4"))),
    "double NaN": ("DOUBLE", pa.array(np.array([0x7FF8 << 48, (0xFFF8 << 48) + 1], "u8").view("f8"))),
    "money": ("DECIMAL(18, 2)", pa.array([Decimal(n).scaleb(-2) for n in (10**18 - 1, 1 - 10**18, 0, 1, -1)])),
    "wide": ("DECIMAL(38, 0)", pa.array(decimals(0), pa.decimal128(38, 0))),
    "fraction": ("DECIMAL(38, 38)", pa.array(decimals(38), pa.decimal128(38, 38))),
    "days": ("DATE", pa.array([-719_162, 2_932_896, 0, -1, 1], pa.int32()).cast(pa.date32())),
    "millis": ("TIMESTAMP(3)", instants("ms")),
    "micros": ("TIMESTAMP(6)", instants("us")),
    "local": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", instants("us").cast(pa.timestamp("us", "UTC"))),
}


def shuffled(keys: pa.Array, times: int) -> pa.Table:
    """Each key ``times`` times, in any order; the value is the number of the row."""
    order = list(range(len(keys))) * times
    random.Random(7).shuffle(order)
    return pa.table({"v": pa.array(range(len(order)), pa.int32()), "k": keys.take(pa.array(order))})


def stored(table: Path, columns: Iterable[str]) -> dict[str, list[list[Any]]]:
    """The rows of every bucket in the order of its one file, in a form that is equal to itself."""

    def shown(column: pa.ChunkedArray) -> list[Any]:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        return [repr(v) if isinstance(v, float) else v for v in column.to_pylist()]

    found = {}
    for path in sorted(table.glob("bucket-*/*.parquet")):
        assert path.parent.name not in found
        rows = pq.read_table(path, columns=list(columns))
        found[path.parent.name] = [shown(column) for column in rows.columns]
    return found


def written_by_both(java: JavaPaimon, root: Path, types: dict[str, str], keys: list[str], rows: pa.Table) -> None:
    """What both wrote of the same rows is the same."""
    options = {"bucket": "3", "file.format": "parquet", "write-only": "true"}
    named = {name: f"{type_} NOT NULL" if name in keys else type_ for name, type_ in types.items()}
    java.create(root / "java", named, keys, options=options)
    java.append(root / "java", rows)
    schema = pa.schema([rows.schema.field(name).with_nullable(name not in keys) for name in types])
    PaimonTable.create(str(root / "ours"), schema, keys, options=options).append(rows)
    columns = [*(f"_KEY_{name}" for name in keys), *types]
    ours = stored(root / "ours", columns)
    assert ours == stored(root / "java", columns)
    assert ours


@pytest.mark.parametrize("name", KEYS)
def test_java_and_we_agree_on_buckets_order_and_equality(java: JavaPaimon, tmp_path: Path, name: str) -> None:
    type_, keys = KEYS[name]
    written_by_both(java, tmp_path, {"v": "INT", "k": type_}, ["k"], shuffled(keys, 3))


def test_keys_of_several_columns_in_another_order_than_the_columns(java: JavaPaimon, tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = pa.table(
        {
            "b": pa.array([rng.choice(["", "\0", "a", "a\0", "\uffff", "\U0001f986"]) for _ in range(300)]),
            "v": pa.array(range(300), pa.int32()),
            "a": pa.array([rng.choice(integers(32)) for _ in range(300)], pa.int32()),
            "c": pa.array([rng.choice([b"", b"\x7f", b"\x80"]) for _ in range(300)], pa.binary()),
        }
    )
    written_by_both(java, tmp_path, {"b": "STRING", "v": "INT", "a": "INT", "c": "BYTES"}, ["c", "a", "b"], rows)


@pytest.mark.parametrize("name", KEYS)
def test_both_kinds_of_lookup_file_find_what_a_merge_finds(tmp_path: Path, name: str) -> None:
    type_, keys = parse_type(KEYS[name][0]), KEYS[name][1]
    if name == "texts":
        keys = keys.filter(pc.less(pc.binary_length(keys), 2**20 - 1))  # keys of up to 64 KB have a test of their own
    ascending = keys.take(pa.array(np.argsort(normalize([keys], [type_]), kind="stable")))
    merged = normalize([ascending], [type_])
    ascending = ascending.take(pa.array(np.flatnonzero(np.append(True, merged[1:] != merged[:-1]))))
    rows = encode([ascending], [type_])
    half = rows.take(pa.array(range(0, len(rows), 2)))
    order = CompactOrder([type_])
    for kind in KINDS:
        made = writer(kind, tmp_path / kind, len(half), 0.05, "lz4", order=order)
        made.put_many(half, half)
        made.close()
        opened = reader(kind, tmp_path / kind, LookupMemory(2**24), order=order)
        found = opened.get_many(rows)
        opened.close()
        assert found.to_pylist() == [row if at % 2 == 0 else None for at, row in enumerate(rows.to_pylist())], kind


@pytest.mark.parametrize("text", [b"\xed\xa0\x80", b"a\xed\xbf\xbf", b"\xff", b"\xc0\x80"], ids=repr)
def test_texts_that_are_not_utf8_are_refused(tmp_path: Path, text: bytes) -> None:
    """A lone surrogate, for one: Arrow takes such bytes for a string when it is told so."""
    table = PaimonTable.create(str(tmp_path / "t"), pa.schema([("k", pa.string()), ("v", pa.string())]), ["k"])
    broken = pa.array([b"fine", text], pa.binary()).view(pa.string())
    fine = pa.array(["one", "two"])
    for columns in ([broken, fine], [fine, broken]):
        with pytest.raises(InvalidInput, match="UTF-8"):
            table.append(pa.table(columns, ["k", "v"]))
    assert table.snapshots() == []
