"""Keys as compact rows: each is found by itself and by nothing else, whatever the other keys of its batch are."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.rows.compact_row import encode
from paimon_spark.types import DataType, arrow_type, parse_type
from tests.lookup.stores import KINDS, reader, writer

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [None, False, True],
    "INT": [None, -(2**31), -1, 0, 1, 2**31 - 1],
    "BIGINT": [None, -(2**63), -1, 0, 1, 2**63 - 1],
    "DOUBLE": [None, float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")],
    "STRING": [None, "", "\x00", "\x00\x00", "a", "a\x00", "a" * 9, "a" * 300, "ab", "b"],
    "BYTES": [None, b"", b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff\xff"],
}
KEYS = [[name] for name in VALUES] + [["STRING", "INT"], ["INT", "STRING"], ["DOUBLE", "BYTES", "BOOLEAN"]]


def rows_of(keys: list[tuple[Any, ...]], types: list[DataType]) -> pa.BinaryArray:
    columns = zip(*keys, strict=True)
    return encode([pa.array(list(c), arrow_type(t)) for c, t in zip(columns, types, strict=True)], types)


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("names", KEYS, ids="-".join)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_found_in_whatever_batch_they_come(
    kind: str, names: list[str], nullable: bool, tmp_path: Path
) -> None:
    types = [parse_type(name if nullable else f"{name} NOT NULL") for name in names]
    keys = list(product(*(VALUES[name][not nullable :] for name in names)))
    order, half = CompactOrder(types), keys[::2]
    made = writer(kind, tmp_path / "file", len(half), None, page_size=30, order=order)
    for at in range(0, len(half), 3):
        rows = rows_of(half[at : at + 3], types)
        made.put_many(rows, rows)
    made.close()
    opened = reader(kind, tmp_path / "file", LookupMemory(2**20), order)
    all_rows = rows_of(keys, types).to_pylist()
    expected = [row if at % 2 == 0 else None for at, row in enumerate(all_rows)]
    rng = random.Random(1)
    for size in (len(keys), 1, 2, 5):
        numbers = rng.sample(range(len(keys)), len(keys))
        for at in range(0, len(keys), size):
            some = numbers[at : at + size]
            found = opened.get_many([all_rows[number] for number in some]).to_pylist()
            assert found == [expected[number] for number in some]
    opened.close()


@pytest.mark.parametrize("names", KEYS, ids="-".join)
def test_nulls_are_refused_where_there_are_none(names: list[str]) -> None:
    types = [parse_type(f"{name} NOT NULL") for name in names]
    keys = [(*(VALUES[name][1] for name in names[:-1]), value) for value in VALUES[names[-1]][:2]]
    with pytest.raises(InvalidInput, match="1 of 2"):
        CompactOrder(types).normalize(rows_of(keys, types))
