"""Picking: which runs of a bucket to compact next, and into which level. Pure.

A unit is always some first runs of the list, the newest ones, so what stays behind is older than all that is merged.
The rules ask in turn. Examples with five runs as the trigger, levels after the @:

* Size amplification: 100@0 100@0 100@0 100@0 150@5. The oldest run stands for the live rows; were all the rest updates
  of them, the bucket would take 400 / 150 = 267 percent more than needed, which is above 200: all runs are merged.
* Size ratio: 1@0 1@0 1@0 1000@3 1000000@4. Three runs are alike, the fourth is much larger. The three are merged, and
  their result goes right below what stays behind, to level 2.
* File number: 1@0 2@1 3@2 50@3 900@4 10000@5. The second run is too large for the first, but six runs are one more than
  wanted. So the first two are merged, the third joins because it is not larger than both, and level 2 it is.

A run that is too large to join ends a unit only at level 2 or higher, once there will be a unit anyway: the rule of
Paimon 2.1. So every unit takes all of levels 0 and 1, and none goes to level 0. Earlier versions end a unit at any
level, 2.0 joins level 1 to a forced one, and both then add runs until one of a higher level than 0 is among them.

A table that looks older versions up must empty its level 0, because only a compaction marks what the rows of level 0
replace. When no rule wants anything, level 0 is taken up by force, each time (radical) or every so many times (gentle).

Source: ``UniversalCompaction``, ``EarlyFullCompaction``, ``ForceUpLevel0Compaction``, ``OffPeakHours`` and
``CompactStrategy`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from paimon_spark.compact.compact_options import (
    FORCE_LOOKUP,
    FORCE_REWRITE_ALL_FILES,
    FORCE_UP_LEVEL_0,
    INCREMENTAL_SIZE_THRESHOLD,
    LOOKUP_COMPACT,
    MAX_SIZE_AMPLIFICATION,
    OFFPEAK_END_HOUR,
    OFFPEAK_RATIO,
    OFFPEAK_START_HOUR,
    OPTIMIZATION_INTERVAL,
    SIZE_RATIO,
    TOTAL_SIZE_THRESHOLD,
    gentle_interval,
)
from paimon_spark.compact.levels import LevelRun, Levels
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.options import CHANGELOG_PRODUCER, COMPACTION_TRIGGER, DELETION_VECTORS, MERGE_ENGINE, Options

Reason = Literal["early full", "size amplification", "size ratio", "file number", "level 0", "full", "file rewrite"]

_HOUR_MILLIS = 3_600_000


@dataclass(frozen=True)
class CompactionUnit:
    """Files to compact into ``output_level``, which is at least 1, in the order of their runs.

    ``rewrite_each``: every file is rewritten on its own, into its own level, to be rid of deleted rows.
    """

    output_level: int
    files: tuple[DataFile, ...]
    reason: Reason
    rewrite_each: bool = False


@dataclass(frozen=True)
class PickerState:
    """What picking depends on besides the files.

    Both clocks are local wall-clock milliseconds as if they were UTC, like the creation time of a data file.
    ``last_full_millis`` is when all runs were last merged (None: never, as far as is known). ``gentle_tries`` counts
    the picks without result since the last unit that the gentle mode forced.
    """

    now_millis: int
    last_full_millis: int | None = None
    gentle_tries: int = 0

    @classmethod
    def of(cls, levels: Levels, now_millis: int) -> PickerState:
        """The state of a picker that is new to the bucket: the newest file of the highest level tells when all runs
        were last merged."""
        times = [file.creation_millis for file in levels.level(levels.max_level) if file.creation_millis is not None]
        return cls(now_millis, max(times, default=None))

    @property
    def hour(self) -> int:
        """The local hour, 0 to 23."""
        return self.now_millis // _HOUR_MILLIS % 24

    def after(self, unit: CompactionUnit | None, levels: Levels, now_millis: int) -> PickerState:
        """The state for the pick that follows one of ``unit`` among ``levels``."""
        if unit is None:
            return replace(self, now_millis=now_millis, gentle_tries=self.gentle_tries + 1)
        all_runs = len(unit.files) == len(levels.files)
        last_full = self.now_millis if all_runs else self.last_full_millis
        return PickerState(now_millis, last_full, 0 if unit.reason == "level 0" else self.gentle_tries)


def needs_lookup(options: Options) -> bool:
    """Whether compactions of the table look older versions of keys up (Java's ``LookupStrategy``)."""
    return (
        options.get_option(MERGE_ENGINE) == "first-row"
        or options.get_option(CHANGELOG_PRODUCER) == "lookup"
        or options.get_option(DELETION_VECTORS)
        or options.get_option(FORCE_LOOKUP)
    )


def pick(levels: Levels, options: Options, state: PickerState, lookup: bool) -> CompactionUnit | None:
    """The unit to compact next, or None where the bucket is fine as it is.

    ``lookup`` is :func:`needs_lookup` of the table.

    :raises InvalidOption: an option of compaction has a value that is not allowed
    """
    if not levels.runs:
        return None
    unit = (
        _early_full(levels, options, state)
        or _size_amplification(levels, options)
        or _size_ratio(levels, options, state)
        or _file_number(levels, options, state)
    )
    if unit is None and _may_force(options, state, lookup):
        unit = _level_0(levels, options, state)
    if unit is None or [file.level for file in unit.files] == [unit.output_level]:
        return None
    return unit


def pick_full(levels: Levels, options: Options, has_vector: Callable[[str], bool]) -> CompactionUnit | None:
    """The unit that leaves one run, in the highest level; None where that is so already and no row is marked deleted.

    ``has_vector`` tells, by a file's name, whether some of its rows are marked deleted. Where there are several runs, a
    large file that overlaps no other keeps its vector; once there is one run, its marked files are rewritten.

    :raises InvalidOption: an option of compaction has a value that is not allowed
    """
    if not levels.runs:
        return None
    if len(levels.runs) > 1 or levels.highest_nonempty < levels.max_level:
        return _all_runs(levels, "full")
    rewrite_all = options.get_option(FORCE_REWRITE_ALL_FILES)
    files = tuple(file for file in levels.files if rewrite_all or has_vector(file.name))
    return CompactionUnit(levels.max_level, files, "file rewrite", rewrite_each=True) if files else None


# ---------------------------------------------------------------------- the rules, in their order


def _early_full(levels: Levels, options: Options, state: PickerState) -> CompactionUnit | None:
    if len(levels.runs) < 2:
        return None
    interval = options.get_option(OPTIMIZATION_INTERVAL)
    total_threshold = options.get_option(TOTAL_SIZE_THRESHOLD)
    incremental_threshold = options.get_option(INCREMENTAL_SIZE_THRESHOLD)
    last = state.last_full_millis
    due = interval is not None and (last is None or state.now_millis - last > interval)
    small = total_threshold is not None and _size(levels.runs) < total_threshold
    below_highest = [run for run in levels.runs if run.level != levels.max_level]
    grown = incremental_threshold is not None and _size(below_highest) > incremental_threshold
    return _all_runs(levels, "early full") if due or small or grown else None


def _size_amplification(levels: Levels, options: Options) -> CompactionUnit | None:
    """The oldest run stands for the live rows, even where it is a file of level 0."""
    if len(levels.runs) < options.get_option(COMPACTION_TRIGGER):
        return None
    amplified = _size(levels.runs[:-1]) * 100 > options.get_option(MAX_SIZE_AMPLIFICATION) * levels.runs[-1].size
    return _all_runs(levels, "size amplification") if amplified else None


def _size_ratio(levels: Levels, options: Options, state: PickerState) -> CompactionUnit | None:
    if len(levels.runs) < options.get_option(COMPACTION_TRIGGER):
        return None
    count = _grown(levels.runs, 1, _ratio_percent(options, state), certain=False)
    return _unit(levels, count, "size ratio") if count > 1 else None


def _file_number(levels: Levels, options: Options, state: PickerState) -> CompactionUnit | None:
    surplus = len(levels.runs) - options.get_option(COMPACTION_TRIGGER)
    if surplus <= 0:
        return None
    count = min(surplus + 1, len(levels.runs))
    count = _grown(levels.runs, count, _ratio_percent(options, state), certain=True)
    return _unit(levels, count, "file number")


def _level_0(levels: Levels, options: Options, state: PickerState) -> CompactionUnit | None:
    count = len(levels.level(0))
    if not count:
        return None
    return _unit(levels, _grown(levels.runs, count, _ratio_percent(options, state), certain=True), "level 0")


def _may_force(options: Options, state: PickerState, lookup: bool) -> bool:
    """Whether level 0 is taken up although no other rule asks for it."""
    if lookup and options.get_option(LOOKUP_COMPACT) == "gentle":
        return state.gentle_tries + 1 >= gentle_interval(options)
    return lookup or options.get_option(FORCE_UP_LEVEL_0)


# ---------------------------------------------------------------------- growing a unit, and where it goes


def _ratio_percent(options: Options, state: PickerState) -> int:
    """How much larger than the runs before it a run may be to join them, in percent; more in the hours off peak."""
    start, end = options.get_option(OFFPEAK_START_HOUR), options.get_option(OFFPEAK_END_HOUR)
    within = start <= state.hour < end if start <= end else state.hour < end or state.hour >= start
    off_peak = start >= 0 and end >= 0 and within
    return options.get_option(SIZE_RATIO) + (options.get_option(OFFPEAK_RATIO) if off_peak else 0)


def _grown(runs: Sequence[LevelRun], count: int, ratio_percent: int, certain: bool) -> int:
    """How many first runs, from ``count`` on, are taken; ``certain``: that number is taken in any case."""
    size = _size(runs[:count])
    for run in runs[count:]:
        too_large = size * (100.0 + ratio_percent) / 100.0 < run.size
        if too_large and (run.level > 1 or not certain):
            break
        size += run.size
        count += 1
        certain = True
    return count


def _unit(levels: Levels, count: int, reason: Reason) -> CompactionUnit:
    """The first ``count`` runs, into the level right below the run that stays behind, which is of level 2 or higher."""
    if count == len(levels.runs):
        return _all_runs(levels, reason)
    return _first_runs(levels, count, levels.runs[count].level - 1, reason)


def _all_runs(levels: Levels, reason: Reason) -> CompactionUnit:
    return _first_runs(levels, len(levels.runs), levels.max_level, reason)


def _first_runs(levels: Levels, count: int, output_level: int, reason: Reason) -> CompactionUnit:
    files = tuple(file for run in levels.runs[:count] for file in run.files)
    return CompactionUnit(output_level, files, reason)


def _size(runs: Sequence[LevelRun]) -> int:
    return sum(run.size for run in runs)
