"""The columnar merge engines against the record-by-record reference, on random tables and histories."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInput
from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.engine import MergeEngine
from paimon_spark.merge.sorted_merge import fold, merge_runs
from paimon_spark.types import DataField
from tests.merge.records import NO_SEQUENCE, engine_of, fields_of, fold_records, keys_of, to_records, to_rows
from tests.merge.reference import Group, Record, Refused, Table, merge
from tests.sizes import seeded, sized

FIELDS = fields_of(
    k="BIGINT NOT NULL",
    a="INT",
    g="INT",
    b="STRING",
    h="BIGINT",
    c="INT",
    i="STRING",
    j="INT",
    d="STRING",
    t="INT",
    n="INT NOT NULL",
)
GROUPS = (Group(("g",), ("a", "b")), Group(("h", "i"), ("c",)), Group(("j",), ("d",)))
NULLS = 0.35


def random_table(rng: random.Random) -> Table:
    """Any engine, with any options that may be set together."""
    engine = rng.choice(["deduplicate", "partial-update", "partial-update", "partial-update", "partial-update"])
    groups: tuple[Group, ...] = ()
    if engine == "partial-update" and rng.random() < 0.65:
        chosen = rng.sample(GROUPS, rng.randint(1, 3))
        groups = tuple(replace(g, removes=rng.random() < 0.5) for g in chosen)
    return Table(
        columns=tuple(f.name for f in FIELDS),
        engine=engine,
        sequence_field=tuple(rng.sample(["t", "i"], rng.choice([0, 0, 1, 2]))),
        descending=rng.random() < 0.4,
        ignore_delete=rng.random() < 0.3 and not any(g.removes for g in groups),
        remove_on_delete=engine == "partial-update" and not groups and rng.random() < 0.6,
        groups=groups,
        not_null=frozenset({"k", "n"}),
    )


def options_of(table: Table) -> dict[str, str]:
    options = {
        "merge-engine": table.engine,
        "ignore-delete": str(table.ignore_delete).lower(),
        "partial-update.remove-record-on-delete": str(table.remove_on_delete).lower(),
        "sequence.field.sort-order": "descending" if table.descending else "ascending",
    }
    if table.sequence_field:
        options["sequence.field"] = ",".join(table.sequence_field)
    for group in table.groups:
        options[f"fields.{','.join(group.sequence)}.sequence-group"] = ",".join(group.protected)
    listed = [g.sequence[0] for g in table.groups if g.removes]
    if listed:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(listed)
    return options


@dataclass(frozen=True)
class Projection:
    """``wanted`` columns, and those ``read`` to merge them."""

    wanted: tuple[str, ...]
    read: tuple[DataField, ...]

    @classmethod
    def random(cls, engine: MergeEngine, rng: random.Random) -> Projection:
        names = [f.name for f in FIELDS]
        wanted = names if rng.random() < 0.5 else rng.sample(names, rng.randint(1, 4))
        needed = {"k", *engine.required_columns(wanted)}
        return cls(tuple(wanted), tuple(f for f in FIELDS if f.name in needed))

    def checked(self, table: Table) -> Table:
        """The table with only those NOT NULL columns that are read: the others cannot be checked."""
        return replace(table, not_null=table.not_null.intersection(f.name for f in self.read))

    def rows(self, records: Sequence[Record], with_sequence: bool = True) -> KeyValues:
        """What is read of the records."""
        return to_rows([select(r, [f.name for f in self.read]) for r in records], self.read, with_sequence)

    def result(self, records: Sequence[Record]) -> list[Record]:
        """What is wanted of merged records."""
        return [select(r, self.wanted) for r in records]


def select(record: Record, columns: Sequence[str]) -> Record:
    return replace(record, values={c: record.values[c] for c in columns})


def random_record(rng: random.Random, key: int, sequence: int, kinds: Sequence[int], nulls: float) -> Record:
    def maybe(value: object) -> object:
        return None if rng.random() < nulls else value

    values = {
        "k": key,
        "a": maybe(rng.randrange(100)),
        "g": maybe(rng.randrange(4)),
        "b": maybe(rng.choice(["x", "y", ""])),
        "h": maybe(rng.randrange(-2, 2)),
        "c": maybe(rng.randrange(100)),
        "i": maybe(rng.choice(["", "p", "pq", "q"])),
        "j": maybe(rng.randrange(3)),
        "d": maybe(rng.choice(["u", "v"])),
        "t": maybe(rng.randrange(3)),
        "n": None if rng.random() < 0.0005 else rng.randrange(10),
    }
    return Record(values, sequence, rng.choice(kinds))


def some_kinds(rng: random.Random, table: Table) -> Sequence[int]:
    retracts_allowed = table.engine == "deduplicate" or table.groups or table.ignore_delete or table.remove_on_delete
    if not retracts_allowed:
        return rng.choice([[0], [0, 2], [0] * 300 + [1, 3]])
    return rng.choice([[0], [0, 2], [0, 0, 0, 1, 2, 3], [0, 3], [1, 3], [0, 3, 3, 3]])


def random_runs(rng: random.Random, table: Table) -> list[list[Record]]:
    """Runs, oldest first, each sorted by key with unique keys; some share no key range with others."""
    kinds, nulls = some_kinds(rng, table), rng.choice([0.0, NULLS, 0.8])
    sequence = 0
    runs = []
    for _ in range(rng.randint(1, 6)):
        first = rng.choice([0, 0, 0, 40])
        keys = sorted(rng.sample(range(first, first + 60), rng.choice([0, 1, 10, 40])))
        run = []
        for key in keys:
            sequence += rng.choice([0, 1, 1])
            run.append(random_record(rng, key, sequence, kinds, nulls))
        runs.append(run)
    return runs


def batches(
    rng: random.Random, run: Sequence[Record], projection: Projection, with_sequence: bool
) -> Iterator[KeyValues]:
    start = 0
    while start < len(run):
        stop = start + rng.choice([1, 3, 10, 100])
        yield projection.rows(run[start:stop], with_sequence)
        start = stop


def check(
    table: Table,
    projection: Projection,
    written: Sequence[Record],
    actual: Callable[[], list[Record]],
    with_sequence: bool = True,
) -> None:
    """The engine's ``actual`` result is the reference's, or both refuse the records."""
    try:
        expected = merge(projection.checked(table), written)
    except Refused:
        with pytest.raises(InvalidInput):
            actual()
        return
    if not with_sequence:
        expected = [replace(r, sequence=NO_SEQUENCE) for r in expected]
    assert projection.result(actual()) == projection.result(expected)


@settings(max_examples=sized(200, 2000), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_fold_agrees_with_the_reference(seed: int) -> None:
    check_fold(seed)


def check_fold(seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(rng)
    engine = engine_of(options_of(table), FIELDS)
    projection = Projection.random(engine, rng)
    kinds, nulls = some_kinds(rng, table), rng.choice([0.0, NULLS, 0.8])
    keys, count = rng.choice([(1, 12), (5, 60), (40, 80), (200, 100)])
    sequences = sorted(rng.choices(range(1, count), k=count)) if rng.random() < 0.5 else list(range(count))
    if rng.random() < 0.3:
        rng.shuffle(sequences)
    written = [random_record(rng, rng.randrange(keys), s, kinds, nulls) for s in sequences]
    rows = projection.rows(written)
    check(table, projection, written, lambda: to_records(fold(keys_of(rows), rows, engine)))


@settings(max_examples=sized(200, 2000), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_merging_runs_agrees_with_the_reference(seed: int) -> None:
    check_merge(seed)


def check_merge(seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(rng)
    engine = engine_of(options_of(table), FIELDS)
    projection = Projection.random(engine, rng)
    runs = random_runs(rng, table)
    with_sequence = rng.random() < 0.7
    if with_sequence and rng.random() < 0.3:
        rng.shuffle(runs)
    written = [replace(r, sequence=r.sequence if with_sequence else at) for at, run in enumerate(runs) for r in run]
    streams = [batches(rng, run, projection, with_sequence) for run in runs]
    windows = merge_runs(streams, FIELDS[:1], engine, window_rows=rng.choice([1, 2, 7, 1000]))
    check(table, projection, written, lambda: [r for rows in windows for r in to_records(rows)], with_sequence)


@pytest.mark.parametrize("check_one", [check_fold, check_merge])
def test_thousands_of_histories(check_one: Callable[[int], None]) -> None:
    """Without Hypothesis, whose care takes longer than a case: runs, their files and batches, windows and columns are
    drawn by lot, and the result depends on none of them."""
    chance = seeded(check_one.__name__)
    for _ in range(sized(1000, 500_000)):
        seed = chance.randrange(2**32)
        try:
            check_one(seed)
        except BaseException as problem:
            raise AssertionError(f"seed {seed}") from problem


@pytest.mark.parametrize("removing", [1, 2, 3])
def test_long_histories_of_one_key(removing: int) -> None:
    """Thousands of records of one key, many of which remove the row."""
    rng = random.Random(removing)
    groups = tuple(replace(g, removes=at < removing) for at, g in enumerate(GROUPS))
    table = Table(tuple(f.name for f in FIELDS), groups=groups, not_null=frozenset({"k", "n"}))
    engine = engine_of(options_of(table), FIELDS)
    written = [random_record(rng, 1, s, [0, 0, 1, 3], 0.3) for s in range(3000)]
    written = [replace(r, values={**r.values, "n": 1, "g": s // 7 if s % 5 else None}) for s, r in enumerate(written)]
    for count in (10, 100, 3000):
        assert fold_records(engine, written[:count], FIELDS) == merge(table, written[:count])
