"""``make bench-lookup``: the lookup stores against those of Java's Paimon 0.9, in turns, by CPU time.

Java is asked one key at a time, which is all it can do; this package is asked in batches of 1, 100 and 10,000. Java's
sort store takes tens of microseconds a key and is asked fewer of them. ``python -m benchmarks.lookup 1000000 hash``
restricts the run to words that its lines contain. The last line is one JSON object: what was measured → ours, Java's,
their ratio, the goal (where there is one) and whether it is met.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks import java_core
from benchmarks.process import REPO, Contestant
from tests.java import jvm

SCRATCH = REPO / "build" / "bench-lookup"
SOURCE = REPO / "benchmarks" / "java" / "LookupBench.java"
ROWS = (1_000_000, 5_000_000)
LENGTHS = (0, 64, 500)
COMPRESSIONS = ("none", "lz4", "zstd")
BATCHES = {1: 500, 100: 20_000, 10_000: 400_000}
ASKED_OF_JAVA = {"hash": 1_000_000, "sort": 6_000}
ROUNDS = 3
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

    def count(self, most: int, least: int) -> int:
        """How many lookups to time: ``most``, or a twentieth where the file does not fit in the 256 MB of cache."""
        return most if self.rows * (self.length + 20) < 180 * 2**20 else max(least, most // 20)

    def arguments(self) -> dict[str, Any]:
        """What a contestant needs to build it."""
        return {"kind": self.kind, "compression": self.compression, "rows": self.rows, "length": self.length}


def cases(words: list[str]) -> Iterator[Case]:
    """All files whose names contain all ``words``."""
    for rows in ROWS:
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
    for case in cases(words):
        run(case, ours, java, results)
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
    command = [
        str(jvm.java_home() / "bin" / "java"),
        *java_core.FLAGS,
        *jvm.JVM_FLAGS,
        "-cp",
        class_path,
        "LookupBench",
    ]
    return Contestant("lookup_java", command)


def run(case: Case, ours: Contestant, java: Contestant, results: dict[str, dict[str, Any]]) -> None:
    """Build the file and ask it, in turns."""
    paths = {contestant: str(SCRATCH / contestant.name) for contestant in (ours, java)}
    built: dict[Contestant, list[float]] = {ours: [], java: []}
    for turn in range(ROUNDS + 1):
        for contestant, path in paths.items():
            answer = contestant.ask("build", path=path, **case.arguments())
            if turn:
                built[contestant].append(case.rows / answer["cpu"])
    rates = {contestant: median(found) for contestant, found in built.items()}
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
    """Time lookups; contestants must find the same number of keys and bytes of values."""
    rates: dict[int, list[float]] = {0: [], **{batch: [] for batch in BATCHES}}
    for turn in range(ROUNDS + 1):
        common = {"rows": case.rows, "seed": 77 + turn * 1_000_000, "hit": hit, "sorted": in_order}
        count = case.count(ASKED_OF_JAVA[case.kind], 2_000)
        answer = java.ask("get", path=paths[java], count=count, **common)
        check(answer, count if hit else 0, case.length)
        if turn:
            rates[0].append(count / max(answer["cpu"], 1e-3))
        for batch, most in BATCHES.items():
            number = case.count(most, max(100, batch))
            answer = ours.ask("get", path=paths[ours], count=number, batch=batch, **common)
            check(answer, number if hit else 0, case.length)
            if turn:
                rates[batch].append(number / answer["cpu"])
    for batch in BATCHES:
        goal = None if batch < 10_000 else HIT_GOAL if hit else MISS_GOAL
        name = f"{case.name} {'hit' if hit else 'miss'} {'sorted' if in_order else 'random'} {batch}"
        note(name, median(rates[batch]), median(rates[0]), goal, results)


def check(answer: dict[str, Any], found: int, length: int) -> None:
    """Refuse wrong answers."""
    assert (answer["found"], answer["value_bytes"]) == (found, found * length), answer


def note(name: str, ours: float, java: float, goal: float | None, results: dict[str, dict[str, Any]]) -> None:
    """Print one line and keep it."""
    ratio = ours / java
    met = None if goal is None else ratio >= goal
    verdict = "" if met is None else f"   goal {goal:g}: {'met' if met else 'missed'}"
    print(f"{name:<52} {ours / 1e6:8.3f} {java / 1e6:8.3f} {ratio:7.2f}{verdict}", flush=True)
    if goal is not None:
        results[name] = {"ours": round(ours), "peer": round(java), "ratio": round(ratio, 3), "goal": goal, "met": met}


if __name__ == "__main__":
    main(sys.argv[1:])
