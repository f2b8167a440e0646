"""The workload of the fault sweeps, and what has to hold whatever went wrong in it.

A partial-update table is created, three feeds upsert what they know, it may be compacted in between, old snapshots
expire, and the result is read. After a fault the table holds what the acknowledged steps wrote, or one step more when
the step itself said that nobody knows. Then the step that failed is repeated as the same commit (same user, same
identifier), the rest follows, and the table is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from paimon_spark.errors import CommitStateUnknown, NotFound, PaimonError, StorageError
from paimon_spark.table import PaimonTable

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
FEEDS = (
    pa.table({"id": [1, 2, 3], "a": [10, 20, 30]}),
    pa.table({"id": [2, 3, 4], "b": ["two", "three", "four"]}),
    pa.table({"id": [1, 4, 5], "c": [0.1, 0.4, 0.5], "a": [11, None, 50]}),
)
CREATE, COMPACT, FULL, EXPIRE, READ = "create", "compact", "compact fully", "expire", "read"
KEPT = 2
USER = "feeds"
Rows = dict[int, tuple[object, ...]]


def expected(feeds: int) -> Rows:
    """The table after that many feeds."""
    merged: dict[int, dict[str, object]] = {}
    for feed in FEEDS[:feeds]:
        for row in feed.to_pylist():
            known = merged.setdefault(row["id"], dict.fromkeys("abc"))
            known.update({name: value for name, value in row.items() if value is not None and name != "id"})
    return {key: tuple(known[name] for name in "abc") for key, known in merged.items()}


def rows_of(table: PaimonTable, **options: str) -> Rows:
    """What a reader sees."""
    rows = table.read(options=options).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "a key is there twice"
    return {row["id"]: (row["a"], row["b"], row["c"]) for row in rows}


def append(path: str, feed: int) -> None:
    """Commit a feed under the identifier that it always has."""
    write = PaimonTable.open(path).new_write()
    write.user = USER
    task = write.task(0)
    try:
        task.write(FEEDS[feed - 1])
        message = task.finish()
    except BaseException:
        task.abort()
        raise
    write.commit([message], identifier=feed)


@dataclass(frozen=True)
class Workload:
    """A table's options, and steps: a number appends that feed, texts do what they say."""

    options: Mapping[str, str]
    steps: tuple[int | str, ...]

    def run(self, path: str, done: int = 0) -> tuple[int, PaimonError | None]:
        """Run the steps after the first ``done``; how many are done when one fails, and its error."""
        for number, step in enumerate(self.steps[done:], done):
            try:
                self._do(path, step)
            except PaimonError as problem:
                return number, problem
        return len(self.steps), None

    def _do(self, path: str, step: int | str) -> None:
        if isinstance(step, int):
            append(path, step)
        elif step == CREATE:
            PaimonTable.create(path, SCHEMA, ["id"], options=self.options)
        elif step == READ:
            assert rows_of(PaimonTable.open(path)) == expected(len(FEEDS))
        elif step == EXPIRE:
            PaimonTable.open(path).expire_snapshots(KEPT, KEPT, timedelta(0))
        else:
            PaimonTable.open(path).compact(full=step == FULL)

    def check_after_fault(self, path: str, done: int, problem: PaimonError) -> None:
        """The table is what the ``done`` acknowledged steps made it, or one more if nobody knows."""
        feeds = sum(isinstance(step, int) for step in self.steps[:done])
        allowed = [feeds]
        if isinstance(problem, CommitStateUnknown) and isinstance(self.steps[done], int):
            allowed.append(feeds + 1)
        try:
            table = PaimonTable.open(path)
        except NotFound:
            assert done == 0, f"the table is gone after {done} steps"
            return
        assert done > 0 or isinstance(problem, StorageError), f"created, but {problem!r}"
        committed = max(feeds_of(table).values(), default=0)
        assert committed in allowed, f"{committed} commits after {done} steps and {problem!r}"
        check_every_snapshot(table)

    def finish(self, path: str, done: int) -> PaimonTable:
        """Repeat the step that failed, and go on to the end."""
        if done == 0 and PaimonTable.exists(path):
            done = 1
        done, problem = self.run(path, done)
        assert problem is None, problem
        table = PaimonTable.open(path)
        assert max(feeds_of(table).values()) == len(FEEDS)
        check_every_snapshot(table)
        return table

    def leaves_nothing(self, done: int, problem: PaimonError | None) -> bool:
        """Whether a run that ended with that problem at that step has deleted what nothing refers to. An expiry, which
        deletes the snapshot first, leaves it to the clean-up."""
        return problem is None or self.steps[done] != EXPIRE


APPENDS = Workload({"merge-engine": "partial-update", "bucket": "1"}, (CREATE, 1, 2, 3, EXPIRE, READ))
COMPACTIONS = Workload(
    {"merge-engine": "partial-update", "bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
    (CREATE, 1, COMPACT, 2, COMPACT, 3, FULL, EXPIRE, READ),
)


def feeds_of(table: PaimonTable) -> dict[int, int]:
    """How many feeds each snapshot has. The identifier of its commit is a feed's number, and none is left out."""
    snapshots = table.snapshots()
    appends = {s.id: s.commit_identifier for s in snapshots if s.commit_kind == "APPEND"}
    assert list(appends.values()) == list(range(min(appends.values(), default=1), max(appends.values(), default=0) + 1))
    feeds = min(appends.values(), default=1) - 1
    return {snapshot.id: (feeds := appends.get(snapshot.id, feeds)) for snapshot in snapshots}


def check_every_snapshot(table: PaimonTable) -> None:
    """Each snapshot holds the feeds up to it, and nothing that it refers to is missing or damaged."""
    for snapshot_id, feeds in feeds_of(table).items():
        assert rows_of(table, **{"scan.snapshot-id": str(snapshot_id)}) == expected(feeds)
    assert table.check(all_snapshots=True) == []


def leftovers(table: PaimonTable) -> set[str]:
    """The files of the table that nothing refers to."""
    return {str(Path(path).relative_to(table.path)) for path in table.remove_orphan_files(timedelta(0), dry_run=True)}
