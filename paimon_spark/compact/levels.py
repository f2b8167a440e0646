"""Levels: how the files of one bucket lie in its LSM tree.

Every file of level 0 is a sorted run of its own, and those runs may overlap: they are what flushes left behind. Each
level above is at most one run, files that follow each other by key without overlap. Runs are listed from the newest to
the oldest, which is level 0 newest first, then level 1, and so on; so the oldest k runs of a bucket are always the
last k of the list, and a compaction takes up some first ones.

Source: ``Levels`` and ``LevelSortedRun`` of Apache Paimon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from paimon_spark.errors import CorruptFile, InvalidOption
from paimon_spark.merge.sections import file_key_ranges
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.options import NUM_LEVELS, Options
from paimon_spark.types import DataType


@dataclass(frozen=True)
class LevelRun:
    """A sorted run: files of one level, in key order, of which no two overlap. Never empty."""

    level: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Levels:
    """The sorted runs of one bucket, newest first. ``number`` counts the levels, empty ones too, level 0 included;
    ``key_types`` are the types of the trimmed primary key."""

    number: int
    runs: tuple[LevelRun, ...]
    key_types: tuple[DataType, ...]

    @classmethod
    def of(cls, files: Iterable[DataFile], options: Options, key_types: Sequence[DataType]) -> Levels:
        """The levels of a bucket that consists of ``files``, which may come in any order.

        :raises InvalidOption: the table has fewer than two levels
        :raises CorruptFile: two files of one level above 0 overlap, or a key bound is not a key
        """
        number = options.num_levels
        if number < 2:
            raise InvalidOption(f"option {NUM_LEVELS.key!r}: {number} levels are too few, give the table at least 2")
        return cls(number, (), tuple(key_types)).apply((), tuple(files))

    @property
    def max_level(self) -> int:
        """The highest level there may be: what is merged into it leaves nothing older behind."""
        return self.number - 1

    @property
    def highest_nonempty(self) -> int:
        """The highest level that has files, -1 in an empty bucket."""
        return self.runs[-1].level if self.runs else -1

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files, run after run."""
        return tuple(file for run in self.runs for file in run.files)

    def level(self, number: int) -> tuple[DataFile, ...]:
        """The files of one level: level 0 from the newest to the oldest, others in key order."""
        return tuple(file for run in self.runs if run.level == number for file in run.files)

    def apply(self, before: Iterable[DataFile], after: Iterable[DataFile]) -> Levels:
        """These levels without the files ``before`` and with the files ``after``.

        Files are known by name; an upgraded file is in both, at its old and its new level.

        :raises CorruptFile: two files of one level above 0 overlap, or a key bound is not a key
        """
        gone = {file.name for file in before}
        by_level: dict[int, list[DataFile]] = defaultdict(list)
        for file in (*(f for f in self.files if f.name not in gone), *after):
            by_level[file.level].append(file)
        newest_first = sorted(by_level.pop(0, []), key=attrgetter("age"))
        runs = [LevelRun(0, (file,)) for file in newest_first] + _upper_runs(by_level, self.key_types)
        highest = runs[-1].level if runs else 0
        return Levels(max(self.number, highest + 1), tuple(runs), self.key_types)


def _upper_runs(by_level: dict[int, list[DataFile]], key_types: Sequence[DataType]) -> list[LevelRun]:
    """One run a level, by level, with the files by key."""
    files = [file for level in sorted(by_level) for file in by_level[level]]
    if not files:
        return []
    mins, maxs = file_key_ranges(files, key_types)
    runs: list[LevelRun] = []
    start = 0
    for level in sorted(by_level):
        stop = start + len(by_level[level])
        order = start + np.argsort(mins[start:stop], kind="stable")
        touching = np.flatnonzero(mins[order][1:] <= maxs[order][:-1])
        if len(touching):
            left, right = files[order[touching[0]]], files[order[touching[0] + 1]]
            raise CorruptFile(right.name, f"its keys overlap those of {left.name}, although both are at level {level}")
        runs.append(LevelRun(level, tuple(files[i] for i in order.tolist())))
        start = stop
    return runs
