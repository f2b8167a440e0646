"""Buckets: Java's for every vector, and the two functions' arithmetic."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.rows import bucket
from paimon_spark.rows.bucket import assign_buckets
from paimon_spark.types import parse_type
from tests.rows.java_vectors import column, types_of, vectors

INT, BIGINT, STRING = parse_type("INT"), parse_type("BIGINT"), parse_type("STRING")


@pytest.mark.parametrize("version", ["java-0.9", "java-2.0"])
def test_every_vector(golden: Path, version: str) -> None:
    """The vectors of each key type as one batch."""
    batches: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in vectors(golden, version, "buckets.json"):
        if types_of(record) is not None:
            batches[str(record["types"])].append(record)
    assert sum(map(len, batches.values())) == 735
    for records in batches.values():
        types = [parse_type(name) for name in records[0]["types"]]
        columns = [column([r["values"][i] for r in records], t) for i, t in enumerate(types)]
        for i, (num_buckets, _) in enumerate(records[0]["buckets"]):
            expected = [record["buckets"][i][1] for record in records]
            assert assign_buckets(columns, types, num_buckets, "default").tolist() == expected


def test_batches_longer_than_a_piece_and_large_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "_BYTES_AT_ONCE", 2**15)
    numbers = pa.array(range(200_000), pa.int64())
    whole = assign_buckets([numbers], [BIGINT], 7, "default")
    parts = [assign_buckets([numbers.slice(i, 1000)], [BIGINT], 7, "default").tolist() for i in range(0, 200_000, 1000)]
    assert whole.tolist() == [number for part in parts for number in part]
    large = pa.array(["a" * 15_000, "b", "c" * 15_000, "d" * 15_000])
    alone = [assign_buckets([large.slice(i, 1)], [STRING], 16, "default")[0] for i in range(4)]
    assert assign_buckets([large], [STRING], 16, "default").tolist() == alone


def test_mod_is_the_remainder_rounded_down() -> None:
    values = [-7, -1, 0, 1, 6, 2**31 - 1, -(2**31)]
    for type_, arrow in ((INT, pa.int32()), (BIGINT, pa.int64())):
        assert assign_buckets([pa.array(values, arrow)], [type_], 5, "mod").tolist() == [v % 5 for v in values]


def test_refusals() -> None:
    text, number = pa.array(["a"]), pa.array([1], pa.int32())
    with pytest.raises(UnsupportedFeature, match="mod"):
        assign_buckets([text], [STRING], 2, "mod")
    with pytest.raises(UnsupportedFeature, match="mod"):
        assign_buckets([number, number], [INT, INT], 2, "mod")
    with pytest.raises(UnsupportedFeature, match="hive"):
        assign_buckets([number], [INT], 2, "hive")
    with pytest.raises(InvalidInput, match="-1 buckets"):
        assign_buckets([number], [INT], -1, "default")
