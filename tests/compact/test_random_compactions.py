"""Random upserts, deletes and late versions with compactions in between read as if nothing had been compacted.

The model never compacts: it keeps every record that was stored and folds them all (see ``tests/merge/reference.py``).
So does a second table, which is ``write-only``. That must be what a table reads whose history was compacted, as long as
the engine allows history to be forgotten. So deletes come with ``sequence.field`` or groups only where these grow from
row to row, since what comes later but is older would not meet them any more; a ``sequence.field`` of partial-update
only grows; and a partial-update that starts anew after a delete needs deletion vectors, because without, two new
records (a delete, and an add after it) may become one add before they meet the row that the delete was for. In a write,
a buffer that fits all rows folds them just like that, in the model too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.merge.reference import Group, Record, Row, Table, merge
from tests.sizes import seeded, sized
from tests.table.test_random_operations import COLUMNS, KINDS, SCHEMA

STEPS = 10


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

    @property
    def starts_anew(self) -> bool:
        """Whether a delete removes what was there, so that the row starts anew after it."""
        return self.remove_on_delete or any(group.removes for group in self.groups)

    def definition(self) -> Table:
        """The table as the model sees it."""
        return Table(
            tuple(COLUMNS),
            ("k", "b"),
            self.engine,
            self.sequence,
            self.descending,
            self.ignore_delete,
            self.remove_on_delete,
            self.groups,
        )


CASES = [
    Case({}, "deduplicate", deletes=True),
    Case({"sequence.field": "t,x"}, "deduplicate", ("t", "x")),
    Case({"sequence.field": "t"}, "deduplicate", ("t",), deletes=True, late=False),
    Case({"sequence.field": "t", "sequence.field.sort-order": "descending"}, "deduplicate", ("t",), descending=True),
    Case({"ignore-delete": "true"}, "deduplicate", ignore_delete=True, deletes=True),
    Case({"ignore-delete": "true"}, ignore_delete=True, deletes=True),
    Case({"partial-update.remove-record-on-delete": "true"}, remove_on_delete=True, deletes=True),
    Case({"sequence.field": "t"}, sequence=("t",), late=False),
    Case(
        {
            "fields.t.sequence-group": "a",
            "fields.s2.sequence-group": "c,x",
            "partial-update.remove-record-on-sequence-group": "t",
        },
        groups=(Group(("t",), ("a",), removes=True), Group(("s2",), ("c", "x"))),
        deletes=True,
        late=False,
    ),
    Case(
        {"fields.s1.sequence-group": "a", "fields.s2,t.sequence-group": "c,x"},
        groups=(Group(("s1",), ("a",)), Group(("s2", "t"), ("c", "x"))),
    ),
]


class Model:
    """What the table should hold: all records of every key, and what they fold to."""

    def __init__(self, definition: Table) -> None:
        self._definition = definition
        self._records: dict[tuple[int, str], list[Record]] = {}
        self._folded: dict[tuple[int, str], Row | None] = {}
        self._next = 0

    def append(self, rows: list[Row]) -> None:
        """One write, whose rows of one key are folded before they are stored."""
        ignored = self._definition.ignore_delete
        kept = [(row, kind) for row in rows if not ((kind := KINDS.index(row["op"])) & 1 and ignored)]
        written = [Record(row, self._next + i, kind) for i, (row, kind) in enumerate(kept)]
        self._next += len(written)
        for record in merge(self._definition, written):
            key = (record.values["k"], record.values["b"])
            self._records.setdefault(key, []).append(record)
            last = merge(self._definition, self._records[key])
            self._folded[key] = None if not last or last[0].kind & 1 else dict(last[0].values)

    def read(self) -> pa.Table:
        """All rows, by key."""
        return by_key(pa.Table.from_pylist([row for row in self._folded.values() if row is not None], SCHEMA))


def by_key(rows: pa.Table) -> pa.Table:
    """The rows in the order of their keys."""
    return rows.cast(SCHEMA).sort_by([("k", "ascending"), ("b", "ascending")])


class Rows:
    """Makes rows; ``t`` and ``s2`` grow from row to row unless late versions are allowed."""

    def __init__(self, rng: random.Random, case: Case) -> None:
        self._rng = rng
        self._case = case
        self._t = 0

    def make(self, keys: list[int]) -> list[Row]:
        """One row for each of the keys."""
        return [self._row(k) for k in keys]

    def _row(self, k: int) -> Row:
        rng, case = self._rng, self._case
        self._t += 1
        kind = rng.choices(KINDS, (6, 1, 3, 3) if case.deletes else (6, 0, 3, 0))[0]
        if case.starts_anew and kind == "-U":
            kind = "+U"
        values: dict[str, Any] = {"k": k, "b": "αβ"[k % 2]}
        for name, type_ in COLUMNS.items():
            if name not in values:
                value = rng.randrange(9)
                values[name] = None if rng.random() < 0.3 else str(value) if type_ == pa.string() else value
        if not case.late:
            values["t"] = values["s2"] = self._t
        if case.starts_anew and kind == "-D":
            values = {**dict.fromkeys(COLUMNS), "k": k, "b": "αβ"[k % 2]}
            values["t"] = None if case.late else self._t
        values["op"] = kind
        return values


def drawn_options(rng: random.Random, case: Case, keys: int) -> dict[str, str]:
    """The table's options. Small pieces are for small tables, of which they do not make too many."""
    small = keys <= 300
    options = {
        **case.options,
        "merge-engine": case.engine,
        "rowkind.field": "op",
        "bucket": str(rng.choice([1, 1, 2])),
        "deletion-vectors.enabled": rng.choice(["true", "true", "false"]),
        "deletion-vectors.bitmap64": rng.choice(["true", "false"]),
        "num-sorted-run.compaction-trigger": str(rng.choice([2, 5])),
        "compaction.force-up-level-0": rng.choice(["true", "false"]),
        "force-lookup": rng.choice(["true", "false"]),
        "lookup-compact": rng.choice(["radical", "gentle"]),
        "lookup.local-file-type": rng.choice(["hash", "sort"]),
        "lookup.cache-max-memory-size": rng.choice(["1 b", "256 mb"]),
        "lookup.cache-max-disk-size": rng.choice(["1 b", "1 gb"]),
        "sort-spill-buffer-size": rng.choice(["1 b", "64 mb"]),
        "write-buffer-size": rng.choice(["4 kb", "256 mb"] if small else ["40 kb", "256 mb"]),
        "target-file-size": rng.choice(["1 b", "20 kb", "128 mb"] if small else ["20 kb", "128 mb"]),
        "read.batch-size": str(rng.choice([7, 1000, 65_536] if small else [300, 1000, 65_536])),
        "parquet.block.size": rng.choice(["1", "128 mb"] if small else ["20 kb", "128 mb"]),
    }
    if case.starts_anew:
        options |= {"deletion-vectors.enabled": "true", "write-buffer-size": "256 mb"}
    return options


@pytest.mark.parametrize("number", range(sized(30, 1000)))
def test_a_compacted_table_reads_as_one_that_never_was(tmp_path: Path, number: int) -> None:
    rng = seeded(f"compactions {number}")
    case = CASES[number % len(CASES)]
    keys = rng.choice([8, 300, 2000])
    options = drawn_options(rng, case, keys)
    print(options)
    made, model = Rows(rng, case), Model(case.definition())
    table = PaimonTable.create(str(tmp_path / "t"), SCHEMA, ["b", "k"], options=options)
    never = PaimonTable.create(
        str(tmp_path / "never"), SCHEMA, ["b", "k"], options={**case.options, **_untouched(options)}
    )
    vectors = options["deletion-vectors.enabled"] == "true"
    for step in range(STEPS):
        many = rng.sample(range(keys), keys * 4 // 5)
        rows = made.make(many if step == 0 else rng.choices(range(keys), k=rng.choice([1, 3, 30, keys // 6 + 1])))
        model.append(rows)
        for each in (table, never):
            each.append(pa.Table.from_pylist(rows, SCHEMA))
        compacted = rng.random() < 0.7 or step == STEPS - 1
        if compacted:
            table.compact(full=rng.random() < 0.2)
        assert table.check() == []
        expected = model.read()
        assert by_key(table.read()).equals(expected)
        assert by_key(never.read()).equals(expected)
        if vectors and compacted:
            assert by_key(table.read(options={"deletion-vectors.merge-on-read": "false"})).equals(expected)
    assert table.check(all_snapshots=True) == []


def _untouched(options: dict[str, str]) -> dict[str, str]:
    """The options of the table that is never compacted: no vectors, nothing to look up."""
    kept = ("merge-engine", "rowkind.field", "bucket", "write-buffer-size", "target-file-size")
    return {"write-only": "true", **{name: options[name] for name in kept}}
