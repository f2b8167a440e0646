"""Leaving deleted rows out, at every density and for every type, held against NumPy and Arrow."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from paimon_spark.files.kept_rows import kept_rows
from paimon_spark.metadata.deletion_vector import DeletionVector
from tests.files.tables import fields_of, numbered, read_parts, schema_of, write

ROWS = 20_011
FRACTIONS = (0.0, 0.001, 0.05, 0.5, 0.99, 1.0)

BoolArray = npt.NDArray[np.bool_]


def deletions(rows: int, random: np.random.Generator) -> list[BoolArray]:
    """For each row whether it is deleted: random ones of every density, a single one, whole stretches."""
    found = [random.random(rows) < fraction for fraction in FRACTIONS]
    for some in ([0], [rows - 1], [rows // 2], range(1000, 2000), range(3000, rows), range(0, rows, 2)):
        gone = np.zeros(rows, np.bool_)
        gone[list(some)] = True
        found.append(gone)
    return found


def batch_of(nulls: bool, random: np.random.Generator) -> pa.RecordBatch:
    """A column of each type; with ``nulls``, a different third of each is null."""
    numbers = random.integers(-1000, 1000, ROWS)
    columns: dict[str, pa.Array] = {
        "i1": pa.array(numbers // 10, pa.int8()),
        "i2": pa.array(numbers, pa.int16()),
        "i4": pa.array(numbers, pa.int32()),
        "i8": pa.array(numbers, pa.int64()),
        "f4": pa.array(numbers / 8, pa.float32()),
        "f8": pa.array(numbers / 8, pa.float64()),
        "b": pa.array(numbers % 3 == 0),
        "d": pa.array([datetime.date(2024, 1, 1) + datetime.timedelta(int(n)) for n in numbers]),
        "t": pa.array(numbers, pa.timestamp("us")),
        "n": pa.array([Decimal(int(n)) / 100 for n in numbers], pa.decimal128(20, 2)),
        "s": pa.array([f"text {n}" * (n % 3) for n in numbers.tolist()]),
        "y": pa.array([b"bytes" * (n % 4) for n in numbers.tolist()]),
        "l": pa.array([[n] * (n % 3) for n in numbers.tolist()]),
        "r": pa.array([{"a": n, "b": str(n)} for n in numbers.tolist()]),
        "z": pa.nulls(ROWS),
    }
    if nulls:
        columns = {
            name: c.take(pa.array(np.arange(ROWS), mask=random.random(ROWS) < 1 / 3)) for name, c in columns.items()
        }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("nulls", [False, True])
def test_every_type_at_every_density(nulls: bool) -> None:
    random = np.random.default_rng(7)
    batch = batch_of(nulls, random)
    for gone in deletions(ROWS, random):
        kept = kept_rows(batch, pa.array(~gone))
        kept.validate(full=True)
        assert kept.equals(batch.take(pa.array(np.flatnonzero(~gone))))


@pytest.mark.parametrize("nulls", [False, True])
def test_slices_of_batches_and_masks(nulls: bool) -> None:
    random = np.random.default_rng(8)
    batch = batch_of(nulls, random)
    for gone in deletions(ROWS, random):
        for start, stop in ((3, 5003), (1001, 1999), (8, ROWS)):
            part, keep = batch.slice(start, stop - start), pa.array(~gone).slice(start, stop - start)
            kept = kept_rows(part, keep)
            kept.validate(full=True)
            assert kept.equals(part.take(pa.array(np.flatnonzero(~gone[start:stop]))))


def test_files_read_without_the_rows_of_their_vector(tmp_path: Path) -> None:
    random = np.random.default_rng(9)
    fields = fields_of(("k", "BIGINT NOT NULL"), ("v", "STRING"), ("b", "BOOLEAN"))
    schema = schema_of(fields, file_block__size="1 b")
    keys = np.arange(ROWS)
    nothing = random.random(ROWS) < 1 / 3
    values = pa.array([f"{key:05d}" for key in keys], mask=nothing)
    table = pa.table([pa.array(keys), values, pa.array(keys % 3 == 0, mask=~nothing)], names=["k", "v", "b"])
    (file,) = write(tmp_path, schema, numbered(table))
    for gone in deletions(ROWS, random):
        vector = DeletionVector.of(np.flatnonzero(gone))
        expected = table.filter(pa.array(~gone))
        for batch_rows in (777, 65_536):
            parts = read_parts(tmp_path, file, schema, fields=fields, deletion=vector, batch_rows=batch_rows)
            left = [table.slice(0, 0).cast(expected.schema), *(part.values.cast(expected.schema) for part in parts)]
            assert pa.concat_tables(left).equals(expected)
