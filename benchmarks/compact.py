"""``make bench-compact``: compaction, and reading under deletion vectors.

Compactions take turns with Java's: both get copies of the very same table, and what they leave must read alike, by
Java too. A scan under vectors is compared with one of the same files without them. Rates are per second of CPU (user
and system, all threads), medians of rounds. Then what 1 M upserts cost in a large table, and what a table costs in
Spark where a parquet file would do, which have no goal. The last line is one JSON object: what was measured → ours,
the peer's, their ratio, the goal (where there is one) and whether it is met.

``--rows`` is the number of rows of the tables that are compacted and scanned, ``--large`` that of the large table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import paimon_spark
from benchmarks import java_core, spark_scan
from benchmarks.data import OPTIONS, rows
from benchmarks.process import REPO, Contestant

SCRATCH = REPO / "build" / "bench-compact"
ROWS, LARGE, UPSERTS = 1_000_000, 10_000_000, 1_000_000
ROUNDS, RUNS = 5, 5
UPDATED = 0.2
DELETED = (0.1, 5, 20, 50)
COLUMNS = {"narrow": 4, "wide": 10}

LOOKUP_GOAL, FULL_GOAL, SCAN_GOAL = 3.0, 1.3, 1.25

VECTORS = {**OPTIONS, "deletion-vectors.enabled": "true"}
OURS = [sys.executable, "-m", "benchmarks.ours"]

Answers = dict[str, list[dict[str, Any]]]
Results = dict[str, dict[str, Any]]


def main() -> None:
    """Run all benchmarks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--large", type=int, default=LARGE)
    arguments = parser.parse_args()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    results: Results = {}
    ours, java = Contestant("ours", OURS), java_core.start()
    running = {"ours": ours}
    if java is None:
        print("no javac found: Java's rows are left out")
    else:
        running["java"] = java
    compactions(running, arguments.rows, results)
    for contestant in running.values():
        contestant.close()
    scans(arguments.rows, results)
    upserts(arguments.large, results)
    through_spark(arguments.rows, results)
    shutil.rmtree(SCRATCH)
    print(json.dumps(results))


# --------------------------------------------------------------------------- compaction


def compactions(running: Mapping[str, Contestant], count: int, results: Results) -> None:
    """Updates looked up and marked, with and without the older rows' values; and all of a bucket into one run."""
    for engine in ("deduplicate", "partial-update"):
        title(f"lookup compaction, {engine}: {UPDATED:.0%} of {count:,} keys updated, rows in")
        options = {**VECTORS, "merge-engine": engine}
        rows_in = build(running["ours"], count, {"count": count, "columns": 10, "options": options, "updated": UPDATED})
        compare(f"lookup_{engine}", turns(running, full=False), rows_in, LOOKUP_GOAL, results)
    title(f"full compaction of {RUNS} runs, half of {count:,} rows repeat a key, rows in")
    for run in range(RUNS):
        part = {"start": run * count // RUNS, "end": (run + 1) * count // RUNS, "keys": count // 2}
        running["ours"].ask("write", path=str(SCRATCH / "t"), fresh=run == 0, **part)
    compare("full", turns(running, full=True), count, FULL_GOAL, results)


def build(ours: Contestant, count: int, request: dict[str, Any]) -> int:
    """The table that is copied; the rows at level 0."""
    ours.ask("build", path=str(SCRATCH / "t"), **request)
    stored = paimon_spark.PaimonTable.open(str(SCRATCH / "t")).files()
    return int(sum(stored["record_count"].to_pylist())) - count


def turns(running: Mapping[str, Contestant], full: bool) -> Answers:
    """Each contestant compacts a new copy of the table in each round; the first warms up and is compared."""
    answers: Answers = {name: [] for name in running}
    for turn in range(ROUNDS + 1):
        paths = {name: str(SCRATCH / f"{name}-{turn}") for name in running}
        for name, contestant in running.items():
            shutil.copytree(SCRATCH / "t", paths[name])
            answer = contestant.ask("compact", path=paths[name], full=full)
            if turn:
                answers[name].append(answer)
        if turn == 0:
            agree(running, list(paths.values()))
        for path in paths.values():
            shutil.rmtree(path)
        print(".", end="", flush=True)
    print()
    return answers


def agree(running: Mapping[str, Contestant], paths: list[str]) -> None:
    """All contestants read the same from what each of them made, and it has nothing left to compact."""
    found = [contestant.ask("scan", path=path, check=True) for path in paths for contestant in running.values()]
    assert all(a["checksum"] == found[0]["checksum"] and a["rows"] == found[0]["rows"] for a in found), found
    tables = [paimon_spark.PaimonTable.open(path) for path in paths]
    first, *others = (table.read().sort_by("k") for table in tables)
    assert all(first.equals(other) for other in others), "the contestants made different rows"
    assert all(table.files()["level"].to_pylist().count(0) == 0 for table in tables), "level 0 is left"


def compare(label: str, answers: Answers, count: int, goal: float, results: Results) -> None:
    """Print the rates of a compaction, and note how many times as fast as Java it is."""
    cpu = {name: median(a["cpu"] for a in found) for name, found in answers.items()}
    for name, seconds in cpu.items():
        wall = median(a["wall"] for a in answers[name])
        print(
            f"  {name:<7} {count / seconds / 1e6:8.3f} M rows per CPU second   {count / wall / 1e6:8.3f} M per second"
        )
    if "java" in cpu:
        results[label] = verdict(count / cpu["ours"], count / cpu["java"], cpu["java"] / cpu["ours"], goal)
        print(f"  ours is {cpu['java'] / cpu['ours']:.2f} times as fast, goal {goal}", flush=True)


# --------------------------------------------------------------------------- scans under vectors


def scans(count: int, results: Results) -> None:
    """Scans of the same files with their vectors and without."""
    contestant = Contestant("ours", OURS)
    path = str(SCRATCH / "t")
    for shape, columns in COLUMNS.items():
        title(f"a scan under deletion vectors, {count:,} keys, {columns} columns, to one of the files as they are")
        for percent in DELETED:
            request = {"count": count, "columns": columns, "updated": percent / 100}
            contestant.ask("build", path=path, options={**VECTORS, "merge-engine": "deduplicate"}, **request)
            contestant.ask("compact", path=path)
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(2 * ROUNDS + 1):
                for vectors in (False, True):
                    answer = contestant.ask("scan_files", path=path, vectors=vectors)
                    assert (answer["rows"] == count) is vectors, answer
                    if turn:
                        seconds[vectors].append(answer["cpu"])
            ours, plain = median(seconds[True]), median(seconds[False])
            print(f"  {percent:>5} % deleted   {ours:.3f} s to {plain:.3f} s of CPU: {ours / plain:.3f}", flush=True)
            name = f"scan_{shape}_{percent}_percent_deleted"
            results[name] = verdict(ours, plain, ours / plain, SCAN_GOAL, at_most=True)
    contestant.close()


# --------------------------------------------------------------------------- upserts into a large table


def upserts(count: int, results: Results) -> None:
    """What a commit of upserts, half of them of keys that exist, and the compaction after it cost fresh processes."""
    fresh = min(UPSERTS, count)
    title(f"{fresh:,} upserts into a table of {count:,} rows, 10 columns, deletion vectors")
    path, data = str(SCRATCH / "large"), str(SCRATCH / "upserts.arrow")
    once("build", path=path, count=count, columns=10, options=VECTORS, runs=max(1, count // 1_000_000))
    new = np.random.default_rng(2).choice(2 * count, fresh, replace=False)
    table = rows(0, fresh, fresh).set_column(0, pa.field("k", pa.int64(), nullable=False), pa.array(new))
    with pa.OSFile(data, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=65536)
    for name, answer in (
        ("write", once("write_file", path=path, data=data, fresh=False)),
        ("compaction", once("compact", path=path)),
    ):
        print(f"  {name:<11} {answer['cpu']:7.2f} s CPU {answer['wall']:7.2f} s wall {answer['peak_mb']:7,.0f} MB peak")
        for key in ("cpu", "wall", "peak_mb"):
            results[f"upserts_{name}_{key}"] = verdict(answer[key])
    shutil.rmtree(path)


def once(command: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a process that does nothing else."""
    contestant = Contestant("ours", OURS)
    answer = contestant.ask(command, **arguments)
    contestant.close()
    return answer


# --------------------------------------------------------------------------- the whole path through Spark


def through_spark(count: int, results: Results) -> None:
    """Write, compact and read a table, and a plain parquet directory, of the same rows in the same session."""
    title(f"through Spark: write, compact and read {count:,} rows, to parquet written and read")
    source = str(SCRATCH / "rows.parquet")
    pq.write_table(rows(0, count, count), source)
    session = spark_scan.spark()
    ways: dict[str, Callable[[str], None]] = {
        "parquet": lambda path: parquet(session, source, path),
        "source": lambda path: data_source(session, source, path),
        "native": lambda path: functions(session, source, path),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, way in ways.items():
            path = str(SCRATCH / f"spark-{name}-{turn}")
            cpu, wall = spark_scan.tree_cpu_seconds(), time.perf_counter()
            way(path)
            if turn:
                seconds[name].append((spark_scan.tree_cpu_seconds() - cpu, time.perf_counter() - wall))
            else:
                stored = session.read.parquet(path) if name == "parquet" else paimon_spark.read(session, path)
                assert stored.count() == count, name
            shutil.rmtree(path)
        print(".", end="", flush=True)
    print()
    session.stop()
    cpu = {name: median(c for c, _ in found) for name, found in seconds.items()}
    for name, found in seconds.items():
        wall = median(w for _, w in found)
        times = "" if name == "parquet" else f"   {cpu[name] / cpu['parquet']:.2f} times the cost of parquet"
        print(f"  {name:<8} {cpu[name]:6.2f} s CPU {wall:6.2f} s wall{times}", flush=True)
        if name != "parquet":
            results[f"spark_{name}_to_parquet"] = verdict(cpu[name], cpu["parquet"], cpu[name] / cpu["parquet"])


def parquet(session: Any, source: str, path: str) -> None:
    """Spark's own files."""
    session.read.parquet(source).write.parquet(path)
    spark_scan.drained(session.read.parquet(path))


def table_options(write_only: bool) -> dict[str, str]:
    """A table with deletion vectors and as many buckets as the session has cores."""
    return {**VECTORS, "bucket": "2", "primary-key": "k", "write-only": str(write_only).lower()}


def data_source(session: Any, source: str, path: str) -> None:
    """``format("paimon-py")``, and a compaction as a Spark job."""
    frame = session.read.parquet(source)
    frame.write.format("paimon-py").mode("append").options(**table_options(True)).save(path)
    paimon_spark.compact(session, path)
    spark_scan.drained(session.read.format("paimon-py").load(path))


def functions(session: Any, source: str, path: str) -> None:
    """``paimon_spark.write``, which also compacts, and ``paimon_spark.read``."""
    paimon_spark.write(session.read.parquet(source), path, **table_options(False))
    spark_scan.drained(paimon_spark.read(session, path))


# --------------------------------------------------------------------------- pieces


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}", flush=True)


def verdict(
    ours: float, peer: float | None = None, ratio: float | None = None, goal: float | None = None, at_most: bool = False
) -> dict[str, Any]:
    """One entry of the last line."""
    met = None if goal is None or ratio is None else ratio <= goal if at_most else ratio >= goal
    shown = [None if number is None else round(number, 3) for number in (ours, peer, ratio)]
    return {"ours": shown[0], "peer": shown[1], "ratio": shown[2], "goal": goal, "met": met}


if __name__ == "__main__":
    main()
