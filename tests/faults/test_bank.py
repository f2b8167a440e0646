"""A bank: writers move money between accounts of theirs while two compactors run. The total never changes.

Every commit moves an amount from one account to another, so at every snapshot, whoever made it, all balances sum up to
what there was at the start. A commit that is half there, a deletion vector that is one compaction old or an old version
that comes back changes the sum.
"""

from __future__ import annotations

import random
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CommitConflict
from paimon_spark.table import PaimonTable
from tests.processes import exit_codes, fork_server
from tests.sizes import seeded, sized

SCHEMA = pa.schema([("account", pa.int64()), ("balance", pa.int64()), ("owner", pa.string())])
OPTIONS = {
    "bucket": "2",
    "merge-engine": "partial-update",
    "deletion-vectors.enabled": "true",
    "num-sorted-run.compaction-trigger": "3",
}
WRITERS, ACCOUNTS, START = 3, 200, 1000


def transfer(path: str, writer: int, commits: int, seed: int, start: Barrier) -> None:
    """Move money ``commits`` times; nobody else touches these accounts."""
    chance = random.Random(seed)
    accounts = range(writer * ACCOUNTS, (writer + 1) * ACCOUNTS)
    balances = dict.fromkeys(accounts, START)
    start.wait()
    for _ in range(commits):
        giver, taker = chance.sample(accounts, 2)
        amount = chance.randrange(1, 500)
        balances[giver] -= amount
        balances[taker] += amount
        rows = pa.table({"account": [giver, taker], "balance": [balances[giver], balances[taker]]})
        PaimonTable.open(path).append(rows)


def compact(path: str, full: bool, start: Barrier, done: Event) -> None:
    """Compact again and again, and once more when all is written."""
    start.wait()
    last = False
    while not last:
        last = done.is_set()
        try:
            PaimonTable.open(path).compact(full=full)
        except CommitConflict:
            last = False


def test_the_total_is_the_same_at_every_snapshot(tmp_path: Path) -> None:
    path, commits = str(tmp_path / "t"), sized(15, 500)
    table = PaimonTable.create(path, SCHEMA, ["account"], options=OPTIONS)
    accounts = list(range(WRITERS * ACCOUNTS))
    table.append(pa.table({"account": accounts, "balance": [START] * len(accounts), "owner": ["x"] * len(accounts)}))
    table.compact(full=True)
    context = fork_server()
    seed = seeded("bank").randrange(2**32)
    start, done = context.Barrier(WRITERS + 2), context.Event()
    writers = [context.Process(target=transfer, args=(path, w, commits, seed + w, start)) for w in range(WRITERS)]
    compactors = [context.Process(target=compact, args=(path, full, start, done)) for full in (False, True)]
    for process in (*writers, *compactors):
        process.start()
    written = exit_codes(writers)
    done.set()
    assert written + exit_codes(compactors) == [0] * (WRITERS + 2)
    snapshots = table.snapshots()
    kinds = [s.commit_kind for s in snapshots]
    assert kinds.count("APPEND") == WRITERS * commits + 1
    assert kinds.count("COMPACT") > 1
    for snapshot in snapshots:
        rows = table.read(options={"scan.snapshot-id": str(snapshot.id)})
        assert rows.num_rows == len(accounts), snapshot
        assert pc.sum(rows.column("balance")).as_py() == START * len(accounts), snapshot
        assert rows.column("owner").null_count == 0, snapshot
    assert table.check(all_snapshots=True) == []
    print(f"{kinds.count('APPEND')} commits and {kinds.count('COMPACT')} compactions: the total is always the same")
