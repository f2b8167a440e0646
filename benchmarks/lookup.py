"""``make bench-lookup``: the lookup stores against those of Java's Paimon 0.9, in turns, by CPU time.

Both are asked the same batches of 10,000 keys, random or sorted in themselves: Java one key at a time, which is all it
can do, this package at once, and also in batches of 1 and 100. A round of lookups is as many as take a tenth of a
second, by the round before the first one that counts. Java's clock counts CPU in hundredths of a second, so small files
are built more often than others. All 36 files take half an hour.

``python -m benchmarks.lookup 1000000 hash none 64B`` restricts the run to files whose names contain these words. The
last line is one JSON object: what was measured → ours, Java's, their ratio, the goal (where there is one) and whether
it is met.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks import java_core
from benchmarks.process import REPO, Contestant
from tests.java import jvm

SCRATCH = REPO / "build" / "bench-lookup"
SOURCE = REPO / "benchmarks" / "java" / "LookupBench.java"
FLAGS = ("-Xmx2g", "-XX:+UseSerialGC")
FEW_ROWS, MANY_ROWS = 1_000_000, 5_000_000
LENGTHS = (0, 64, 500)
COMPRESSIONS = ("none", "lz4", "zstd")
ROUNDS = 5
ROUND_SECONDS = 0.1
MOST_BUILDS, BUILD_SECONDS = 25, 1.5
BATCHES = (10_000, 100, 1)
MOST_ASKED = {10_000: 400_000, 100: 20_000, 1: 300}
FIRST_ASKED = {10_000: 20_000, 100: 1_000, 1: 20}
BUILD_GOALS = {"hash": 2.0, "sort": 1.0}
HIT_GOAL, MISS_GOAL = 3.0, 1.0


@dataclass(frozen=True)
class Case:
    """One file to build and ask."""

    kind: str
    rows: int
    compression: str
    length: int

    @property
    def name(self) -> str:
        """How the lines of this file begin."""
        return f"{self.kind} {self.rows} {self.compression} {self.length}B"

    def arguments(self) -> dict[str, Any]:
        """What a contestant needs to build it."""
        return {"kind": self.kind, "compression": self.compression, "rows": self.rows, "length": self.length}


def cases(words: list[str]) -> Iterator[Case]:
    """All files whose names contain all ``words``."""
    for rows in (FEW_ROWS, MANY_ROWS):
        for kind in ("hash", "sort"):
            for compression in COMPRESSIONS:
                for length in LENGTHS:
                    case = Case(kind, rows, compression, length)
                    if all(word in case.name.split() for word in words):
                        yield case


def main(words: list[str]) -> None:
    """Run the cases that ``words`` leave."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    ours = Contestant("lookup_ours", [sys.executable, "-m", "benchmarks.lookup_ours"])
    java = start_java()
    results: dict[str, dict[str, Any]] = {}
    print(f"{'million per CPU second':<52} {'ours':>8} {'Java':>8} {'ratio':>7}")
    chosen, begin = list(cases(words)), time.perf_counter()
    for number, case in enumerate(chosen, 1):
        run(case, ours, java, results)
        print(f"file {number} of {len(chosen)}, {time.perf_counter() - begin:.0f} seconds", file=sys.stderr, flush=True)
    for contestant in (ours, java):
        contestant.close()
    shutil.rmtree(SCRATCH)
    print(json.dumps(results))


def start_java() -> Contestant:
    """Java's process."""
    javac = java_core.compiler()
    if javac is None:
        sys.exit("bench-lookup compares with Java and needs a JDK (javac) to compile benchmarks/java/LookupBench.java")
    java_core.CLASSES.mkdir(parents=True, exist_ok=True)
    subprocess.run([javac, "-nowarn", "-cp", jvm.class_path(), "-d", java_core.CLASSES, SOURCE], check=True)
    class_path = f"{java_core.CLASSES}:{jvm.class_path()}"
    executable = str(jvm.java_home() / "bin" / "java")
    return Contestant("lookup_java", [executable, *FLAGS, *jvm.JVM_FLAGS, "-cp", class_path, "LookupBench"])


def run(case: Case, ours: Contestant, java: Contestant, results: dict[str, dict[str, Any]]) -> None:
    """Build the file and ask it, in turns."""
    paths = {contestant: str(SCRATCH / contestant.name) for contestant in (ours, java)}
    built: dict[Contestant, list[float]] = {ours: [], java: []}
    for turn in range(MOST_BUILDS + 1):
        for contestant, path in paths.items():
            answer = contestant.ask("build", path=path, **case.arguments())
            if turn:
                built[contestant].append(answer["cpu"])
        if turn >= ROUNDS and min(map(sum, built.values())) >= BUILD_SECONDS:
            break
    rates = {contestant: case.rows / median(seconds) for contestant, seconds in built.items()}
    note(f"{case.name} build", rates[ours], rates[java], BUILD_GOALS[case.kind], results)
    for contestant, path in paths.items():
        contestant.ask("open", path=path, kind=case.kind, compression=case.compression)
    for hit in (True, False):
        for in_order in (False, True):
            ask(case, hit, in_order, ours, java, paths, results)
    for contestant, path in paths.items():
        contestant.ask("close", path=path)


def ask(
    case: Case,
    hit: bool,
    in_order: bool,
    ours: Contestant,
    java: Contestant,
    paths: dict[Contestant, str],
    results: dict[str, dict[str, Any]],
) -> None:
    """Time lookups; contestants must find all keys, or none, and the right number of bytes."""
    asked = {"java": (java, 10_000), **{str(batch): (ours, batch) for batch in BATCHES}}
    counts = {name: FIRST_ASKED[batch] for name, (_, batch) in asked.items()}
    rates: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(ROUNDS + 2):
        for name, (contestant, batch) in asked.items():
            answer = contestant.ask(
                "get",
                path=paths[contestant],
                count=counts[name],
                batch=batch,
                rows=case.rows,
                seed=77 + turn * 1_000_000,
                hit=hit,
                sorted=in_order,
            )
            found = counts[name] if hit else 0
            assert (answer["found"], answer["value_bytes"]) == (found, found * case.length), answer
            rate = counts[name] / max(answer["cpu"], 1e-6)
            if turn < 2:
                counts[name] = min(MOST_ASKED[batch], max(batch, int(rate * ROUND_SECONDS) // batch * batch))
            else:
                rates[name].append(rate)
    for batch in BATCHES:
        goal = None if batch < 10_000 else HIT_GOAL if hit else MISS_GOAL
        name = f"{case.name} {'hit' if hit else 'miss'} {'sorted' if in_order else 'random'} {batch}"
        note(name, median(rates[str(batch)]), median(rates["java"]), goal, results)


def note(name: str, ours: float, java: float, goal: float | None, results: dict[str, dict[str, Any]]) -> None:
    """Print one line and keep it."""
    ratio = ours / java
    met = None if goal is None else ratio >= goal
    verdict = "" if met is None else f"   goal {goal:g}: {'met' if met else 'missed'}"
    print(f"{name:<52} {ours / 1e6:8.3f} {java / 1e6:8.3f} {ratio:7.2f}{verdict}", flush=True)
    results[name] = {"ours": round(ours), "peer": round(java), "ratio": round(ratio, 3), "goal": goal, "met": met}


if __name__ == "__main__":
    main(sys.argv[1:])
