"""``make bench``: this package against pypaimon, pypaimon with its Rust core, and Java.

Rates are per second of CPU (user and system, all threads), which a busy machine disturbs least; wall seconds are shown
beside them. pypaimon in Python alone is given fewer rows, and rates are compared by the row. Before anything is timed
all contestants must agree on how many values each column has and what they sum up to. The last line is one JSON object:
what was measured → ours, the peer's, their ratio, the goal and whether it is met.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from benchmarks import imports, java_core, many_files
from benchmarks.data import FEW_COLUMNS, rows
from benchmarks.process import REPO, Contestant
from benchmarks.rounds import Timing, run_rounds

SCRATCH = REPO / "build" / "bench"
PYPAIMON = str(REPO / ".venv-pypaimon" / "bin" / "python")
ROWS = 2_000_000
ROWS_WRITTEN_BY_PYPAIMON = 200_000
ROWS_READ_BY_PYPAIMON = 400_000
ROWS_OF_ONE_COMMIT = 1_600_000
RUNS = 5

WRITE_GOALS = {"pypaimon": 10.0, "pypaimon_rust": 1.0, "java": 2.0}
SCAN_GOALS = {"pypaimon": 15.0, "pypaimon_rust": 1.0, "java": 1.5}
PLAN_GOAL = 5.0
MEMORY_GOAL_MB = 600.0
IMPORT_GOAL_MS = 80.0

COMMANDS = {
    "ours": [sys.executable, "-m", "benchmarks.ours"],
    "pypaimon": [PYPAIMON, "-m", "benchmarks.pypaimon"],
    "pypaimon_rust": [PYPAIMON, "-m", "benchmarks.pypaimon", "native"],
}


def main() -> None:
    """Run all benchmarks."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    results: dict[str, dict[str, Any]] = {}
    with contestants() as all_of_them:
        write(all_of_them, results)
        scan(all_of_them, results)
        plan({name: all_of_them[name] for name in ("ours", "pypaimon")}, results)
    memory(results)
    import_cost(results)
    shutil.rmtree(SCRATCH)
    print(json.dumps(results))


@contextmanager
def contestants() -> Iterator[dict[str, Contestant]]:
    """All that can run here."""
    running = {name: Contestant(name, command) for name, command in COMMANDS.items()}
    java = java_core.start()
    if java is None:
        print("no javac found: Java's rows are left out")
    else:
        running["java"] = java
    yield running
    for contestant in running.values():
        contestant.close()


def table_path(name: str) -> str:
    """Where a table lies so that pypaimon's catalog finds it."""
    return str(SCRATCH / "default.db" / name)


def write(running: dict[str, Contestant], results: dict[str, dict[str, Any]]) -> None:
    """One commit to level 0, half of the rows repeating a key."""
    title(f"write to level 0: one commit, half of the rows repeat a key ({ROWS_WRITTEN_BY_PYPAIMON:,} for pypaimon)")
    turns: dict[str, tuple[int, Callable[[], dict[str, Any]]]] = {}
    for name, contestant in running.items():
        count = ROWS_WRITTEN_BY_PYPAIMON if name == "pypaimon" else ROWS
        turns[name] = (count, write_once(contestant, count))
    compare("write", run_rounds(turns), WRITE_GOALS, "rows", results)


def write_once(contestant: Contestant, count: int) -> Callable[[], dict[str, Any]]:
    """A commit of ``count`` rows to a new table."""
    path = table_path(f"write_{contestant.name}")
    return lambda: contestant.ask("write", path=path, start=0, end=count, keys=count // 2)


def scan(running: dict[str, Contestant], results: dict[str, dict[str, Any]]) -> None:
    """Merge on read of one table that this package wrote."""
    for count in (ROWS, ROWS_READ_BY_PYPAIMON):
        for run in range(RUNS):
            start, end = run * count // RUNS, (run + 1) * count // RUNS
            path = table_path(f"scan_{count}")
            running["ours"].ask("write", path=path, start=start, end=end, keys=count // 2, fresh=run == 0)
    check_answers(running)
    for label, columns in (("scan", None), ("scan_3_columns", list(FEW_COLUMNS))):
        shown = "all columns" if columns is None else "3 columns"
        title(f"merge on read: {RUNS} level-0 runs, rows in, {shown} ({ROWS_READ_BY_PYPAIMON:,} for pypaimon)")
        turns: dict[str, tuple[int, Callable[[], dict[str, Any]]]] = {}
        for name, contestant in running.items():
            count = ROWS_READ_BY_PYPAIMON if name == "pypaimon" else ROWS
            turns[name] = (count, scan_once(contestant, count, columns))
        compare(label, run_rounds(turns), SCAN_GOALS, "rows", results)


def scan_once(contestant: Contestant, count: int, columns: list[str] | None) -> Callable[[], dict[str, Any]]:
    """A read of the table of ``count`` rows."""
    return lambda: contestant.ask("scan", path=table_path(f"scan_{count}"), columns=columns)


def check_answers(running: dict[str, Contestant]) -> None:
    """All contestants read the same from the same table."""
    for count in (ROWS, ROWS_READ_BY_PYPAIMON):
        for columns in (None, list(FEW_COLUMNS)):
            found = {}
            for name, contestant in running.items():
                if name != "pypaimon" or count == ROWS_READ_BY_PYPAIMON:
                    answer = contestant.ask("scan", path=table_path(f"scan_{count}"), columns=columns, check=True)
                    found[name] = (answer["rows"], answer["checksum"])
            assert all(answer == found["ours"] for answer in found.values()), f"the contestants disagree: {found}"
            assert found["ours"][0] == count // 2, found["ours"]
    print("\nall contestants read the same rows")


def plan(running: dict[str, Contestant], results: dict[str, dict[str, Any]]) -> None:
    """Plan a table of many files."""
    title(f"plan a read: {many_files.FILES:,} files in {many_files.COMMITS} manifests, {many_files.BUCKETS} buckets")
    path = table_path("many_files")
    many_files.build(path)
    found = {name: contestant.ask("plan", path=path)["rows"] for name, contestant in running.items()}
    assert len(set(found.values())) == 1, f"the contestants disagree: {found}"
    turns = {name: (many_files.FILES, plan_once(contestant, path)) for name, contestant in running.items()}
    compare("plan", run_rounds(turns), {"pypaimon": PLAN_GOAL}, "files", results)


def plan_once(contestant: Contestant, path: str) -> Callable[[], dict[str, Any]]:
    """A plan of the table at ``path``."""
    return lambda: contestant.ask("plan", path=path)


def memory(results: dict[str, dict[str, Any]]) -> None:
    """The greatest size of a fresh process that commits once."""
    data = SCRATCH / "commit.arrow"
    table = rows(0, ROWS_OF_ONE_COMMIT, ROWS_OF_ONE_COMMIT // 2)
    with pa.OSFile(str(data), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=65536)
    title(f"peak memory: a fresh process, one commit of {ROWS_OF_ONE_COMMIT:,} rows")
    peaks = {}
    for name, command in COMMANDS.items():
        contestant = Contestant(name, command)
        answer = contestant.ask("write_file", path=table_path(f"memory_{name}"), data=str(data))
        contestant.close()
        peaks[name] = answer["peak_mb"]
        print(f"  {name:<14} {answer['peak_mb']:8,.0f} MB   (the rows themselves: {answer['input_mb']:,.0f} MB)")
    results["commit_peak_memory_mb"] = verdict(
        peaks["ours"], peaks["pypaimon"], MEMORY_GOAL_MB, peaks["ours"] < MEMORY_GOAL_MB
    )


def import_cost(results: dict[str, dict[str, Any]]) -> None:
    """What a worker pays to import the package."""
    title("import in a fresh worker that has NumPy, pyarrow and pyspark already")
    ours, peer = imports.milliseconds(sys.executable, PYPAIMON)
    print(f"  {'ours':<14} {ours:8.0f} ms of CPU\n  {'pypaimon':<14} {peer:8.0f} ms of CPU")
    results["import_ms"] = verdict(ours, peer, IMPORT_GOAL_MS, ours <= IMPORT_GOAL_MS)


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}", flush=True)


def compare(
    label: str, timings: dict[str, Timing], goals: dict[str, float], unit: str, results: dict[str, dict[str, Any]]
) -> None:
    """Print the timings, and note how many times as fast as each peer this package is."""
    ours = timings["ours"]
    for name, timing in timings.items():
        line = (
            f"  {name:<14} {timing.rate / 1e6:8.3f} M {unit} per CPU second   {timing.items / timing.wall / 1e6:8.3f} M"
        )
        times = "" if name == "ours" else f"   ours is {ours.rate / timing.rate:.1f} times as fast"
        print(f"{line} per second{times}", flush=True)
        if name in goals:
            ratio = ours.rate / timing.rate
            results[f"{label}_vs_{name}"] = verdict(ours.rate, timing.rate, goals[name], ratio >= goals[name])


def verdict(ours: float, peer: float, goal: float, met: bool) -> dict[str, Any]:
    """One entry of the last line."""
    return {"ours": round(ours, 1), "peer": round(peer, 1), "ratio": round(ours / peer, 3), "goal": goal, "met": met}


if __name__ == "__main__":
    main()
