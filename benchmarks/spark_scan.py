"""``make bench-spark``: scans of compacted tables in one Spark session.

Contestants: ``plain``, Spark's own reader over the table's very files, which knows nothing of deleted rows; ``native``,
:func:`paimon_spark.read`; ``python``, ``format("paimon-py")``. They take turns; figures are medians of wall seconds and
of CPU seconds (the JVM, all Python workers, this process). What is compared is the wall. The last line is one JSON
object: what was measured → seconds of both, their ratio, the goal and whether it is met.

``--rows`` changes the number of rows (20,000,000 are worth a quiet machine), ``--rounds`` the turns, ``--seconds``
after how many a query gets no more than three of them, ``--deleted`` the percentages of deleted rows, ``--shapes`` the
tables. Opening the DataFrame is part of every measurement. The last table has 10,000 tiny files: it is opened and
counted by ``plain``, which is given their names, and ``native``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import paimon_spark
from benchmarks import many_files
from benchmarks.process import REPO
from paimon_spark import PaimonTable
from paimon_spark.rows.bucket import assign_buckets
from paimon_spark.types import parse_type

SCRATCH = REPO / "build" / "bench-spark"
ROWS, ROUNDS, SECONDS = 5_000_000, 7, 20.0
LEAST_ROUNDS = 3
# Turns that are not counted: the JVM compiles.
WARM_UP = 2
DELETED = (0, 1, 5, 20)
NARROW = {"id": pa.int64(), "v": pa.int32(), "s": pa.string(), "x": pa.float64()}
WIDE = {"id": pa.int64(), **{f"c{i}": (pa.int32(), pa.string(), pa.int64())[i % 3] for i in range(19)}}
SHAPES = {"narrow": NARROW, "wide": WIDE}
OPTIONS = {"bucket": "4", "deletion-vectors.enabled": "true", "write-only": "true", "merge-engine": "deduplicate"}

# What native may take of plain's time by the percentage of deleted rows, and how many times as fast as Python it is.
PLAIN_GOALS = {0: 1.1, 5: 1.4}
PYTHON_GOALS = {"one column": 2.0, "count": 2.0, "filter": 2.0}
# Seconds in which 10,000 files are planned.
MANY_FILES_GOAL = 5.0

Seconds = tuple[float, float]


@dataclass(frozen=True)
class Query:
    """What is done with a DataFrame: the columns it names, and the rest."""

    name: str
    run: Callable[[Any], object]


def drained(df: Any) -> None:
    """Every row computed and thrown away."""
    df.write.format("noop").mode("overwrite").save()


def queries(rows: int) -> list[Query]:
    """A full scan, one column, a count, and a filter that a tenth of the rows satisfy."""
    return [
        Query("full scan", drained),
        Query("one column", lambda df: drained(df.select("id"))),
        Query("count", lambda df: df.count()),
        Query("filter", lambda df: drained(df.where(f"id < {rows // 10}"))),
    ]


def main() -> None:
    """Run all benchmarks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--deleted", type=int, nargs="+", default=DELETED)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    arguments = parser.parse_args()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    results: dict[str, dict[str, Any]] = {}
    session = spark()
    for shape in arguments.shapes:
        columns = SHAPES[shape]
        for percent in arguments.deleted:
            measure(session, f"{shape}, {percent} % deleted", columns, percent, arguments, results)
        if shape == "narrow":
            measure(session, f"{shape}, 5 % deleted, level 0", columns, 5, arguments, results, level_0=True)
    measure_many_files(session, results)
    session.stop()
    shutil.rmtree(SCRATCH)
    print(json.dumps(results))


def spark() -> Any:
    """A session of two cores."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPO), os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def measure(
    session: Any,
    label: str,
    columns: Mapping[str, pa.DataType],
    percent: int,
    arguments: argparse.Namespace,
    results: dict[str, dict[str, Any]],
    level_0: bool = False,
) -> None:
    """One table: all queries by all contestants."""
    count = arguments.rows
    path = str(SCRATCH / "t")
    build(path, columns, count, percent, level_0)
    files, schema = plain_files(path), session.read.format("paimon-py").load(path).schema
    contestants: dict[str, Callable[[], Any]] = {
        "plain": lambda: session.read.schema(schema).parquet(*files),
        "native": lambda: paimon_spark.read(session, path),
        "python": lambda: session.read.format("paimon-py").load(path),
    }
    assert contestants["native"]().count() == count
    assert checksum(contestants["native"]()) == checksum(contestants["python"]())
    print(f"\n{label}", flush=True)
    for query in queries(count):
        found = rounds(contestants, query, arguments.rounds, arguments.seconds)
        show(query.name, found)
        note(f"{label}: {query.name}", query.name, percent, found, results)
    shutil.rmtree(path)


def measure_many_files(session: Any, results: dict[str, dict[str, Any]]) -> None:
    """Opening of a table of many tiny files, and opening it to count its rows."""
    path = str(SCRATCH / "many")
    many_files.build_compacted(path)
    files, schema = plain_files(path), session.read.format("paimon-py").load(path).schema
    contestants: dict[str, Callable[[], Any]] = {
        "plain": lambda: session.read.schema(schema).parquet(*files),
        "native": lambda: paimon_spark.read(session, path),
    }
    label = f"{len(files):,} files"
    print(f"\n{label}", flush=True)
    for query in (Query("opening", lambda df: df), Query("count", lambda df: df.count())):
        found = rounds(contestants, query, 1, 0, warm_up=1)
        show(query.name, found)
        native, plain = found["native"], found["plain"]
        if query.name == "opening":
            entry = verdict(native, plain, MANY_FILES_GOAL, at_most=True)
            results[f"{label}: opening"] = {**entry, "met": native[0] <= MANY_FILES_GOAL}


def checksum(df: Any) -> Any:
    """The number of rows and a number that two DataFrames of the same rows, in whatever order, have in common."""
    return df.selectExpr("count(*)", f"bit_xor(xxhash64({', '.join(df.columns)}))").collect()


def rounds(
    contestants: Mapping[str, Callable[[], Any]], query: Query, turns: int, seconds: float, warm_up: int = WARM_UP
) -> dict[str, Seconds]:
    """Median wall and CPU seconds of each contestant, after ``warm_up`` turns. No turn above the third that counts
    begins after ``seconds``."""
    taken: dict[str, list[Seconds]] = {name: [] for name in contestants}
    begin = time.perf_counter()
    for turn in range(warm_up + turns):
        if turn >= warm_up + LEAST_ROUNDS and time.perf_counter() - begin > seconds:
            break
        for name, frame in contestants.items():
            cpu, wall = tree_cpu_seconds(), time.perf_counter()
            query.run(frame())
            if turn >= warm_up:
                taken[name].append((time.perf_counter() - wall, tree_cpu_seconds() - cpu))
    return {name: (median(w for w, _ in runs), median(c for _, c in runs)) for name, runs in taken.items()}


def show(name: str, found: Mapping[str, Seconds]) -> None:
    """One line a query. A contestant that has not run has no ratio."""
    cells = "   ".join(f"{who} {wall:6.2f} s wall {cpu:6.2f} s CPU" for who, (wall, cpu) in found.items())
    ratios = [
        f"{above} ÷ {below} {found[above][0] / max(found[below][0], 0.01):.2f} wall "
        f"{found[above][1] / max(found[below][1], 0.01):.2f} CPU"
        for above, below in (("native", "plain"), ("python", "native"))
        if above in found
    ]
    print(f"  {name:<11} {cells}   {', '.join(ratios)}", flush=True)


def note(key: str, query: str, percent: int, found: Mapping[str, Seconds], results: dict[str, dict[str, Any]]) -> None:
    """Put what has a goal into the last line."""
    native, plain, python = (found[name] for name in ("native", "plain", "python"))
    if query == "full scan" and percent in PLAIN_GOALS:
        results[f"{key}, native to plain"] = verdict(native, plain, PLAIN_GOALS[percent], at_most=True)
    if query in PYTHON_GOALS:
        results[f"{key}, python to native"] = verdict(native, python, PYTHON_GOALS[query])


def verdict(ours: Seconds, peer: Seconds, goal: float, at_most: bool = False) -> dict[str, Any]:
    """One entry of the last line; seconds. What counts is the wall; ``cpu_ratio`` is the same of CPU seconds."""
    ratio, cpu_ratio = ((a if at_most else b) / max(b if at_most else a, 0.01) for a, b in zip(ours, peer, strict=True))
    return {
        "ours": round(ours[0], 3),
        "peer": round(peer[0], 3),
        "ratio": round(ratio, 3),
        "cpu_ratio": round(cpu_ratio, 3),
        "goal": goal,
        "met": ratio <= goal if at_most else ratio >= goal,
    }


# --------------------------------------------------------------------------- tables


def build(path: str, columns: Mapping[str, pa.DataType], count: int, percent: int, level_0: bool) -> None:
    """A compacted table of ``count`` keys, of which ``percent`` % have a newer version in another file than the first;
    with ``level_0`` a thousandth of them have a yet newer one, all in one of the four buckets."""
    schema = pa.schema([pa.field(name, type_, nullable=name != "id") for name, type_ in columns.items()])
    table = PaimonTable.create(path, schema, ["id"], options=OPTIONS)
    for start in range(0, count, 1_000_000):
        table.append(rows(np.arange(start, min(start + 1_000_000, count)), schema))
    table.compact(full=True)
    if percent:
        chosen = np.flatnonzero(np.random.default_rng(1).random(count) < percent / 100)
        table.append(rows(chosen, schema))
        table.compact()
    if level_0:
        table.append(rows(of_first_bucket(np.arange(count // 2, count))[: count // 1000], schema))


def of_first_bucket(ids: Any) -> Any:
    """Those of ``ids`` that are in bucket 0."""
    buckets = assign_buckets([pa.array(ids)], [parse_type("BIGINT")], int(OPTIONS["bucket"]), "default")
    return ids[buckets == 0]


def rows(ids: Any, schema: pa.Schema) -> pa.Table:
    """Rows of these ids."""
    random = np.random.default_rng(int(ids[0]) if len(ids) else 0)
    texts = pa.array([f"name-{n}" for n in range(50_000)])

    def column(field: pa.Field) -> pa.Array:
        if field.name == "id":
            return pa.array(ids, pa.int64())
        if pa.types.is_string(field.type):
            return texts.take(pa.array(random.integers(0, len(texts), len(ids))))
        if pa.types.is_floating(field.type):
            return pa.array(random.random(len(ids)))
        return pa.array(random.integers(0, 10_000, len(ids))).cast(field.type)

    return pa.table([column(field) for field in schema], schema=schema)


def plain_files(path: str) -> list[str]:
    """All live data files of the table."""
    found = {file.name: str(file) for file in Path(path).rglob("*.parquet")}
    return [found[name] for name in file_names(path)]


def file_names(path: str) -> Iterator[str]:
    """Their names."""
    for file in PaimonTable.open(path).files()["file_path"].to_pylist():
        yield Path(file).name


# --------------------------------------------------------------------------- CPU of the process tree


def tree_cpu_seconds() -> float:
    """User and system seconds of this process, all below it, and their children that have ended (Linux). A Python
    worker that Spark ends without waiting for it takes its own away."""
    parents: dict[int, tuple[int, int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1]), sum(int(ticks) for ticks in fields[11:15])
    me = os.getpid()
    return sum(ticks for pid, (_, ticks) in parents.items() if _below(pid, me, parents)) / os.sysconf("SC_CLK_TCK")


def _below(pid: int, ancestor: int, parents: Mapping[int, tuple[int, int]]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid][0]
    return pid == ancestor


if __name__ == "__main__":
    main()
