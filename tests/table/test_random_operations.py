"""Random writes and reads agree with a model that folds one record after the other.

The model keeps what each append leaves of its rows (equal keys of one append are folded before they are stored, as
in every Paimon writer) and folds that per key when it is read.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput
from paimon_spark.table import PaimonTable
from tests.merge.reference import Group, Record, Refused, Table, merge

COLUMNS = {
    "k": pa.int32(),
    "b": pa.string(),
    "a": pa.int64(),
    "x": pa.int32(),
    "s1": pa.int32(),
    "s2": pa.int64(),
    "c": pa.string(),
    "t": pa.int32(),
    "op": pa.string(),
}
SCHEMA = pa.schema(list(COLUMNS.items()))
KINDS = ("+I", "-U", "+U", "-D")
NO_GROUPS: tuple[Group, ...] = ()
CONFIGURATIONS: list[tuple[dict[str, str], Table]] = [
    ({}, Table(tuple(COLUMNS), ("k", "b"), "deduplicate")),
    ({"sequence.field": "t,x"}, Table(tuple(COLUMNS), ("k", "b"), "deduplicate", ("t", "x"))),
    (
        {"sequence.field": "t", "sequence.field.sort-order": "descending"},
        Table(tuple(COLUMNS), ("k", "b"), "deduplicate", ("t",), descending=True),
    ),
    ({"ignore-delete": "true"}, Table(tuple(COLUMNS), ("k", "b"), "deduplicate", ignore_delete=True)),
    ({"ignore-delete": "true"}, Table(tuple(COLUMNS), ("k", "b"), ignore_delete=True)),
    (
        {"partial-update.remove-record-on-delete": "true", "sequence.field": "t"},
        Table(tuple(COLUMNS), ("k", "b"), sequence_field=("t",), remove_on_delete=True),
    ),
    (
        {"fields.s1.sequence-group": "a", "fields.s2,t.sequence-group": "c,x"},
        Table(tuple(COLUMNS), ("k", "b"), groups=(Group(("s1",), ("a",)), Group(("s2", "t"), ("c", "x")))),
    ),
    (
        {
            "fields.s1.sequence-group": "a",
            "fields.s2.sequence-group": "c,x",
            "partial-update.remove-record-on-sequence-group": "s1",
        },
        Table(tuple(COLUMNS), ("k", "b"), groups=(Group(("s1",), ("a",), removes=True), Group(("s2",), ("c", "x")))),
    ),
]


def _rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    def row() -> dict[str, Any]:
        values: dict[str, Any] = {"k": rng.randrange(6), "b": rng.choice("αβ") * rng.randrange(3)}
        for name, type_ in COLUMNS.items():
            if name not in ("k", "b", "op"):
                value = rng.randrange(5)
                values[name] = None if rng.random() < 0.3 else str(value) if type_ == pa.string() else value
        values["op"] = rng.choices(KINDS, (6, 1, 3, 2))[0]
        return {name: values[name] for name in COLUMNS}

    return [row() for _ in range(count)]


class Model:
    """What the table should hold."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._stored: list[Record] = []
        self._next = 0

    def append(self, rows: list[dict[str, Any]]) -> None:
        kinds = [KINDS.index(row["op"]) for row in rows]
        kept = [
            (row, kind) for row, kind in zip(rows, kinds, strict=True) if not (self._table.ignore_delete and kind & 1)
        ]
        records = [Record(row, self._next + i, kind) for i, (row, kind) in enumerate(kept)]
        self._stored += merge(self._table, records)
        self._next += len(records)

    def read(self) -> list[dict[str, Any]]:
        return [dict(record.values) for record in merge(self._table, self._stored) if not record.kind & 1]


@pytest.mark.parametrize("seed", range(64))
def test_random_appends_read_as_the_model_says(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    options, definition = CONFIGURATIONS[seed % len(CONFIGURATIONS)]
    options = {
        **options,
        "merge-engine": definition.engine,
        "rowkind.field": "op",
        "bucket": str(rng.randrange(1, 4)),
        "read.batch-size": str(rng.choice([1, 3, 64])),
        "source.split.target-size": rng.choice(["1 b", "128 mb"]),
        "source.split.open-file-cost": "1 b",
        "parquet.block.size": "1",
    }
    table = PaimonTable.create(str(tmp_path / "t"), SCHEMA, ["b", "k"], options=options)
    model = Model(definition)
    for _ in range(rng.randrange(1, 7)):
        rows = _rows(rng, rng.randrange(1, 40))
        try:
            model.append(rows)
        except Refused:
            with pytest.raises(InvalidInput):
                table.append(pa.Table.from_pylist(rows, SCHEMA))
            continue
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    expected = model.read()
    assert _sorted(table.read().to_pylist()) == _sorted(expected)
    _check_projections_and_filters(rng, table, expected)


def _check_projections_and_filters(rng: random.Random, table: PaimonTable, expected: list[dict[str, Any]]) -> None:
    for _ in range(6):
        columns = rng.sample(sorted(COLUMNS), rng.randrange(1, 5))
        column = rng.choice(["k", "b", "a", "x", "c", "t"])
        operator, test = rng.choice(
            [
                ("==", lambda v, w: v == w),
                (">", lambda v, w: v > w),
                ("<=", lambda v, w: v <= w),
                ("!=", lambda v, w: v != w),
            ]
        )
        literal: Any = rng.randrange(5)
        if COLUMNS[column] == pa.string():
            literal = "αα" if column == "b" else str(literal)
        matching = [row for row in expected if row[column] is not None and test(row[column], literal)]
        found = table.read(columns, [(column, operator, literal)]).to_pylist()
        assert _sorted(found) == _sorted([{name: row[name] for name in columns} for row in matching])


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
