"""Compaction scripts: a bucket's files as text, a question with options, and the answer as text.

    define
      L0 a 1 [1,5] deletes=2
      L0 b 2mb [3,9] deletes=? vector
      L3 c 50 [0,9] / d 50 [10,19]
    plan num-sorted-run.compaction-trigger=3
    ----
    size ratio → L2: a b
      rewrite (a | b)

A line of ``define`` is one run, newest first: its level, then its files as name, size and, if they matter, least and
greatest key (0 and 9 unless told), rows of kind delete (? where unknown) and whether a deletion vector covers rows.
A bucket stays defined for the questions that follow it. Questions: ``pick`` (the unit), ``full`` (that of
a full compaction), ``plan`` and ``plan-full`` (the unit and its steps). Arguments with a value for the picker's state
are ``hour``, ``tries`` and ``since-full`` (a duration); all others are table options. Lines after # are comments.

``python -m tests.compact.script FILE…`` writes the answers of today into the files.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.compact.levels import Levels
from paimon_spark.compact.picker import CompactionUnit, PickerState, needs_lookup, pick, pick_full
from paimon_spark.compact.task import CompactionPlan, Rewrite, Section, plan_task
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.options import Options, parse_duration, parse_memory
from paimon_spark.rows.binary_row import EMPTY_ROW, serialize
from paimon_spark.types import parse_type

CASES = Path(__file__).parent / "cases"
KEY_TYPES = (parse_type("BIGINT"),)
MIDNIGHT = 1_700_006_400_000
_NONE = Statistics(EMPTY_ROW, EMPTY_ROW, ())
_FILE = re.compile(
    r"(?P<name>\w+) (?P<size>\w+)(?: \[(?P<low>-?\d+),(?P<high>-?\d+)\])?(?: deletes=(?P<deletes>\d+|\?))?"
    r"(?P<vector> vector)?"
)


def made_up_file(
    name: str, level: int, size: int = 1, low: int = 0, high: int = 9, sequence: int = 0, **fields: Any
) -> DataFile:
    """A data file that nobody wrote, with keys from ``low`` to ``high``, and other ``fields`` as told."""
    least, greatest = serialize([pa.array([low, high], pa.int64())], list(KEY_TYPES))
    bounds = {"min_key": least, "max_key": greatest, "min_sequence": sequence, "max_sequence": sequence}
    statistics = {"key_stats": _NONE, "value_stats": _NONE}
    known = {"name": name, "level": level, "size": size, "row_count": 10, "schema_id": 0}
    return DataFile(**{**known, **bounds, **statistics, **fields})


@dataclass(frozen=True)
class Bucket:
    """What a ``define`` says."""

    files: tuple[DataFile, ...]
    vectors: frozenset[str]


def parse_bucket(lines: list[str]) -> Bucket:
    """The files of the lines of one ``define``."""
    files: list[DataFile] = []
    vectors = set()
    for number, line in enumerate(lines):
        level, _, rest = line.strip().partition(" ")
        for text in rest.split(" / "):
            match = _FILE.fullmatch(text)
            assert match is not None, f"not a file: {text!r}"
            size, low, high = parse_memory(match["size"]), int(match["low"] or 0), int(match["high"] or 9)
            file = made_up_file(match["name"], int(level[1:]), size, low, high, sequence=len(lines) - number)
            deletes = match["deletes"] or "0"
            files.append(file._replace(delete_row_count=None if deletes == "?" else int(deletes)))
            vectors |= {file.name} if match["vector"] else set()
    return Bucket(tuple(files), frozenset(vectors))


def answer(bucket: Bucket, question: str) -> str:
    """The answer to one question about the bucket."""
    verb, *arguments = question.split()
    given = dict(argument.split("=", 1) for argument in arguments)
    now = MIDNIGHT + int(given.pop("hour", "0")) * 3_600_000
    since_full = given.pop("since-full", None)
    last_full = None if since_full is None else now - int(parse_duration(since_full))
    state = PickerState(now, last_full, int(given.pop("tries", "0")))
    options = Options(given)
    levels = Levels.of(bucket.files, options, KEY_TYPES)
    assert verb in ("pick", "full", "plan", "plan-full"), f"not a question: {verb}"
    full = verb.endswith("full")
    lookup = needs_lookup(options)
    unit = pick_full(levels, options, bucket.vectors.__contains__) if full else pick(levels, options, state, lookup)
    if unit is None:
        return "nothing"
    plan = plan_task(unit, levels, options, lookup) if verb.startswith("plan") else None
    return "\n".join([text_of_unit(unit), *([] if plan is None else lines_of_plan(plan))])


def text_of_unit(unit: CompactionUnit) -> str:
    """Why, where to, and which files."""
    each = ", each file" if unit.rewrite_each else ""
    return f"{unit.reason} → L{unit.output_level}{each}: {' '.join(file.name for file in unit.files)}"


def lines_of_plan(plan: CompactionPlan) -> list[str]:
    """One line a step; sections in brackets, their runs between bars."""
    lines = []
    for step in plan.steps:
        work = (
            f"rewrite {' '.join(map(_section, step.sections))}"
            if isinstance(step, Rewrite)
            else f"upgrade {step.file.name}"
        )
        lines.append(f"  {work}{' with lookup' if step.lookup else ''}")
    lines += [f"  keep {file.name}" for file in plan.kept]
    return [*lines, "  drop deletes"] if plan.drop_delete else lines


def _section(section: Section) -> str:
    return "(" + " | ".join(" ".join(file.name for file in run) for run in section) + ")"


@dataclass(frozen=True)
class Question:
    """A question of a script, with the bucket it is about and the answer that the script expects."""

    place: str
    line: int
    bucket: Bucket
    text: str
    expected: str


def questions_of(name: str) -> list[Question]:
    """The questions of one file of ``cases``."""
    return questions((CASES / f"{name}.txt").read_text(), name)


def questions(script: str, name: str) -> list[Question]:
    """The questions of a script, in order; ``name`` is what to call the script."""
    found: list[Question] = []
    bucket = Bucket((), frozenset())
    lines = script.splitlines()
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        block = []
        while at < len(lines) and lines[at].startswith("  "):
            block.append(lines[at])
            at += 1
        if line == "define":
            bucket = parse_bucket(block)
            continue
        assert lines[at : at + 1] == ["----"], f"line {at + 1}: ---- is expected after a question"
        stop = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
        found.append(
            Question(
                f"{name}:{start + 1}", start + 1, bucket, " ".join([line, *block]), "\n".join(lines[at + 1 : stop])
            )
        )
        at = stop
    return found


def rewritten(script: str) -> str:
    """The script with the answers of today."""
    lines = script.splitlines()
    for question in reversed(questions(script, "")):
        start = lines.index("----", question.line) + 1
        stop = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
        lines[start:stop] = answer(question.bucket, question.text).splitlines()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(rewritten(path.read_text()))
