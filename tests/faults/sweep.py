"""The workload of the fault sweeps, and what has to hold whatever went wrong in it.

A partial-update table is created, three feeds upsert what they know, and the result is read. After a fault the table
holds what the acknowledged steps wrote, or one step more when the step itself said that nobody knows. Then the step
that failed is repeated as the same commit (same user, same identifier), the rest follows, and the table is exact.
"""

from __future__ import annotations

from collections.abc import Callable
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
OPTIONS = {"merge-engine": "partial-update", "bucket": "1"}
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


def create(path: str) -> None:
    """Step 0."""
    PaimonTable.create(path, SCHEMA, ["id"], options=OPTIONS)


def append(path: str, feed: int) -> None:
    """Steps 1 to 3: commit a feed under the identifier that it always has."""
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


def read(path: str) -> None:
    """The last step."""
    assert rows_of(PaimonTable.open(path)) == expected(len(FEEDS))


STEPS: tuple[Callable[[str], None], ...] = (
    create,
    *(lambda path, feed=feed: append(path, feed) for feed in range(1, len(FEEDS) + 1)),
    read,
)


def run(path: str, done: int = 0) -> tuple[int, PaimonError | None]:
    """Run the steps after the first ``done``; how many are done when one fails, and its error."""
    for number, step in enumerate(STEPS[done:], done):
        try:
            step(path)
        except PaimonError as problem:
            return number, problem
    return len(STEPS), None


def check_after_fault(path: str, done: int, problem: PaimonError) -> None:
    """The table is what the ``done`` acknowledged steps made it."""
    feeds = max(done - 1, 0)
    allowed = [feeds]
    if isinstance(problem, CommitStateUnknown):
        allowed.append(feeds + 1)
    try:
        table = PaimonTable.open(path)
    except NotFound:
        assert done == 0, f"the table is gone after {done} steps"
        return
    assert done > 0 or isinstance(problem, StorageError), f"created, but {problem!r}"
    committed = len(table.snapshots())
    assert committed in allowed, f"{committed} commits after {done} steps and {problem!r}"
    check_every_snapshot(table)


def check_every_snapshot(table: PaimonTable) -> None:
    """Each snapshot holds the feeds up to it, and nothing that it refers to is missing or damaged."""
    for snapshot in table.snapshots():
        assert rows_of(table, **{"scan.snapshot-id": str(snapshot.id)}) == expected(snapshot.id)
    assert table.check(all_snapshots=True) == []


def finish(path: str, done: int) -> PaimonTable:
    """Repeat the step that failed, and go on to the end."""
    if done == 0 and PaimonTable.exists(path):
        done = 1
    done, problem = run(path, done)
    assert problem is None, problem
    table = PaimonTable.open(path)
    assert [s.commit_identifier for s in table.snapshots()] == [1, 2, 3]
    check_every_snapshot(table)
    return table


def leftovers(table: PaimonTable) -> set[str]:
    """The files of the table that nothing refers to."""
    return {str(Path(path).relative_to(table.path)) for path in table.remove_orphan_files(timedelta(0), dry_run=True)}
