"""Random upserts, deletes and late versions with compactions in between read as if nothing had been compacted.

The model never compacts: it keeps every record that was stored and folds them all (see ``tests/merge/reference.py``).
That must be what a table reads whose history was compacted, as long as the engine allows history to be forgotten. So
deletes come with ``sequence.field`` or groups nowhere, since what comes later but is older would not meet them any
more; a ``sequence.field`` of partial-update only grows; and a partial-update that starts anew after a delete needs
deletion vectors, because without, two new records (a delete, and an add after it) may become one add before they meet
the row that the delete was for. In a write, a buffer that fits all rows folds them just like that, in the model too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.merge.reference import Group, Table
from tests.table.test_random_operations import KINDS, Model

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
KEYS = 2500


@dataclass(frozen=True)
class Case:
    """Options, what the model has to know of them, and which histories may be forgotten."""

    options: dict[str, str]
    engine: str = "partial-update"
    sequence: tuple[str, ...] = ()
    descending: bool = False
    groups: tuple[Group, ...] = ()
    ignore_delete: bool = False
    remove_on_delete: bool = False
    deletes: bool = False
    late: bool = True

    def model(self) -> Model:
        """The table as the model sees it."""
        return Model(
            Table(
                tuple(COLUMNS),
                ("k", "b"),
                self.engine,
                self.sequence,
                self.descending,
                self.ignore_delete,
                self.remove_on_delete,
                self.groups,
            )
        )


CASES = [
    Case({}, "deduplicate", deletes=True),
    Case({"sequence.field": "t,x"}, "deduplicate", ("t", "x")),
    Case({"sequence.field": "t", "sequence.field.sort-order": "descending"}, "deduplicate", ("t",), descending=True),
    Case({"ignore-delete": "true"}, "deduplicate", ignore_delete=True, deletes=True),
    Case({"ignore-delete": "true"}, ignore_delete=True, deletes=True),
    Case({"partial-update.remove-record-on-delete": "true"}, remove_on_delete=True, deletes=True),
    Case({"sequence.field": "t"}, sequence=("t",), late=False),
    Case(
        {"fields.s1.sequence-group": "a", "fields.s2,t.sequence-group": "c,x"},
        groups=(Group(("s1",), ("a",)), Group(("s2", "t"), ("c", "x"))),
    ),
]


class Rows:
    """Makes rows; ``t`` grows from row to row unless late versions are allowed."""

    def __init__(self, rng: random.Random, case: Case) -> None:
        self._rng = rng
        self._case = case
        self._t = 0

    def make(self, keys: list[int]) -> list[dict[str, Any]]:
        return [self._row(k) for k in keys]

    def _row(self, k: int) -> dict[str, Any]:
        rng, case = self._rng, self._case
        self._t += 1
        kind = rng.choices(KINDS, (6, 1, 3, 3) if case.deletes else (6, 0, 3, 0))[0]
        if case.remove_on_delete and kind == "-U":
            kind = "+U"
        values: dict[str, Any] = {"k": k, "b": "αβ"[k % 2]}
        for name, type_ in COLUMNS.items():
            if name not in values:
                value = rng.randrange(9)
                values[name] = None if rng.random() < 0.3 else str(value) if type_ == pa.string() else value
        if not case.late:
            values["t"] = self._t
        if case.remove_on_delete and kind == "-D":
            values = {**dict.fromkeys(COLUMNS), "k": k, "b": "αβ"[k % 2]}
        values["op"] = kind
        return values


def _options(rng: random.Random, case: Case) -> dict[str, str]:
    options = {
        **case.options,
        "merge-engine": case.engine,
        "rowkind.field": "op",
        "bucket": str(rng.choice([1, 1, 2])),
        "deletion-vectors.enabled": rng.choice(["true", "true", "false"]),
        "num-sorted-run.compaction-trigger": str(rng.choice([2, 5])),
        "compaction.force-up-level-0": rng.choice(["true", "false"]),
        "force-lookup": rng.choice(["true", "false"]),
        "lookup-compact": rng.choice(["radical", "gentle"]),
        "lookup.local-file-type": rng.choice(["hash", "sort"]),
        "lookup.cache-max-memory-size": rng.choice(["1 b", "256 mb"]),
        "lookup.cache-max-disk-size": rng.choice(["1 b", "1 gb"]),
        "sort-spill-buffer-size": rng.choice(["1 b", "64 mb"]),
        "write-buffer-size": rng.choice(["4 kb", "256 mb"]),
        "target-file-size": rng.choice(["1 b", "20 kb", "128 mb"]),
        "read.batch-size": str(rng.choice([7, 1000, 65_536])),
        "parquet.block.size": rng.choice(["1", "128 mb"]),
    }
    if case.remove_on_delete:
        options |= {"deletion-vectors.enabled": "true", "write-buffer-size": "256 mb"}
    return options


@pytest.mark.parametrize("seed", range(32))
def test_a_compacted_table_reads_as_one_that_never_was(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    case = CASES[seed % len(CASES)]
    made, model = Rows(rng, case), case.model()
    table = PaimonTable.create(str(tmp_path / "t"), SCHEMA, ["b", "k"], options=_options(rng, case))
    every_key = list(range(KEYS))
    for step in range(12):
        if step == 0:
            keys = rng.sample(every_key, KEYS * 4 // 5)
        else:
            keys = rng.choices(every_key, k=rng.choice([1, 3, 30, 400]))
        rows = made.make(keys)
        model.append(rows)
        table.append(pa.Table.from_pylist(rows, SCHEMA))
        if rng.random() < 0.7:
            table.compact(full=rng.random() < 0.15)
            assert table.check() == []
        if step % 4 == 3:
            assert _sorted(table.read().to_pylist()) == _sorted(model.read())
    table.compact(full=rng.random() < 0.5)
    expected = _sorted(model.read())
    assert _sorted(table.read().to_pylist()) == expected
    if table.options["deletion-vectors.enabled"] == "true":
        raw = table.read(options={"deletion-vectors.merge-on-read": "false"})
        assert _sorted(raw.to_pylist()) == expected
    assert table.check() == []


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
