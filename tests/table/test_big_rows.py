"""Rows, batches, schemas and histories that are far larger than usual: right, or refused before anything is visible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.sizes import SOAK, sized

TEXTS = pa.schema([("k", pa.int64()), ("s", pa.string())])
MB = 2**20


def test_one_row_with_a_very_long_text(tmp_path: Path) -> None:
    size = sized(64, 512) * MB
    table = PaimonTable.create(str(tmp_path / "t"), TEXTS, ["k"], options={"write-only": "true"})
    text = pa.array(["x" * size])
    table.append(pa.table([pa.array([1]), text], schema=TEXTS))
    table.append(pa.table([pa.array([2]), pa.array(["short"])], schema=TEXTS))
    table.compact(full=True)
    assert sorted(_lengths(table)) == [(1, size), (2, 5)]


def _lengths(table: PaimonTable) -> list[tuple[int, int]]:
    rows = table.read()
    lengths = [len(value.as_buffer()) for value in rows["s"]]
    return list(zip(rows["k"].to_pylist(), lengths, strict=True))


@pytest.mark.skipif(not SOAK, reason="takes 8 GB of memory")
@pytest.mark.parametrize("keys", [2300, 1150], ids=["keys once", "keys twice"])
def test_a_write_of_more_text_than_32_bit_offsets_reach(tmp_path: Path, keys: int) -> None:
    """2.3 GB of texts of a megabyte in one buffer, in the wrong order."""
    table = PaimonTable.create(str(tmp_path / "t"), TEXTS, ["k"], options={"write-buffer-size": "8 gb"})
    write = table.new_write()
    task = write.task(0)
    for number in range(2300, 0, -1):
        task.write(pa.table([pa.array([number % keys]), pa.array([f"{number:08d}" * (MB // 8)])], schema=TEXTS))
    write.commit([task.finish()])
    assert sorted(_lengths(table)) == [(key, MB) for key in range(keys)]


def test_five_thousand_columns(tmp_path: Path) -> None:
    columns = {"k": pa.array([1, 2]), **{f"c{i}": pa.array([i, None], pa.int32()) for i in range(4999)}}
    rows = pa.table(columns)
    options = {"merge-engine": "partial-update", "bucket": "1"}
    table = PaimonTable.create(str(tmp_path / "t"), rows.schema, ["k"], options=options)
    table.append(rows)
    table.append(rows.select(["k", "c7"]).slice(0, 1))
    found = PaimonTable.open(table.path).read()
    assert found.num_columns == 5000
    assert found.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_million_versions_of_one_key(tmp_path: Path, engine: str) -> None:
    count = 1_000_000
    numbers = np.arange(count)
    schema = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    options = {"merge-engine": engine, "write-buffer-size": "8 mb"}
    table = PaimonTable.create(str(tmp_path / "t"), schema, ["k"], options=options)
    once = pa.array(numbers, mask=numbers != 17)
    table.append(pa.table([np.zeros(count, np.int64), numbers, once], schema=schema))
    assert table.read().to_pylist() == [{"k": 0, "a": count - 1, "b": 17 if engine == "partial-update" else None}]
