"""The plan of one compaction: which files to rewrite together, and which to move up as they are. Pure.

Moving a file to a higher level costs a line in a manifest, rewriting it costs all its bytes. So only files that must
be merged, because their keys overlap, are rewritten; and small ones next to them, lest the bucket fill up with crumbs.
Into level 5, with files below 90 MB being small:

    a [1, 5] 1 MB   b [3, 9] 1 MB   c [10, 20] 200 MB   d [21, 22] 1 MB   e [30, 40] 2 MB   f [50, 60] 150 MB

    (a | b)     a section of two runs: wait for neighbours
    (c)         a large file alone: rewrite what waits, (a | b); move c up
    (d), (e)    small files: wait
    (f)         rewrite (d)(e), one file after the other into one; move f up

Had e not been there, d would have waited alone, and would have been moved up too. What waits is rewritten before a
large file is passed, so the new files and those that moved up still follow each other by key.

Not every file may move up unread. Nothing is older than the highest level, so deletes have no meaning there: a file
that has some, or may have, is rewritten without them. Where older versions are looked up, a file of level 0 has rows
that replace others further down, which must be marked deleted at least (a lookup), and merged with (a rewrite, too)
where the outcome depends on the older row's values.

Source: ``MergeTreeCompactTask``, ``FileRewriteCompactTask``, ``ChangelogMergeTreeRewriter`` and
``LookupMergeTreeCompactRewriter`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paimon_spark.compact.compact_options import FORCE_REWRITE_ALL_FILES, SMALL_FILE_RATIO
from paimon_spark.compact.levels import Levels
from paimon_spark.compact.picker import CompactionUnit
from paimon_spark.merge.engine import newest_decides
from paimon_spark.merge.keys import KeyArray
from paimon_spark.merge.sections import file_key_ranges, sections, sorted_runs
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.options import (
    DELETION_VECTORS,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    TARGET_FILE_SIZE,
    Options,
)

Run = tuple[DataFile, ...]
Section = tuple[Run, ...]


@dataclass(frozen=True)
class Rewrite:
    """Merge each section's runs, and write one section after the other into new files of the plan's output level.

    Sections are in key order and share no key. The files of a run are in key order and do not overlap; the order of
    the runs of a section says nothing about their age.
    ``lookup``: of a key that has a record of level 0 and none of a higher level among the section's, the older version
    is looked up in the levels above the output level, and what is found is marked deleted or merged with.
    """

    sections: tuple[Section, ...]
    lookup: bool

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files that are rewritten, section by section."""
        return tuple(file for section in self.sections for run in section for file in run)


@dataclass(frozen=True)
class Upgrade:
    """List the file at the plan's output level; its bytes, its name and its deletion vector stay.

    ``lookup``: first read its keys, and mark their older versions in the levels above the output level deleted.
    """

    file: DataFile
    lookup: bool

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The one file."""
        return (self.file,)


Step = Rewrite | Upgrade


@dataclass(frozen=True)
class CompactionPlan:
    """What to do with the files of a unit, in key order; files of the unit that ``kept`` has stay where they are.

    ``drop_delete``: rows whose merged kind is -U or -D are left out of new files, because nothing below needs them.
    """

    output_level: int
    drop_delete: bool
    steps: tuple[Step, ...]
    kept: tuple[DataFile, ...]

    @property
    def rewritten(self) -> tuple[DataFile, ...]:
        """The files that are replaced by new ones; their deletion vectors go with them."""
        return tuple(file for step in self.steps if isinstance(step, Rewrite) for file in step.files)

    @property
    def upgraded(self) -> tuple[DataFile, ...]:
        """The files that get a new level, as listed now."""
        return tuple(step.file for step in self.steps if isinstance(step, Upgrade))


def plan_task(unit: CompactionUnit, levels: Levels, options: Options, lookup: bool) -> CompactionPlan:
    """How to compact ``unit``, which was picked from ``levels``.

    ``lookup`` is :func:`~paimon_spark.compact.picker.needs_lookup` of the table. A plan may have no steps: then the
    files of the unit are as they should be.

    :raises InvalidOption: an option of compaction has a value that is not allowed
    :raises CorruptFile: a key bound is not a key
    """
    rules = _Rules.of(unit, levels, options, lookup)
    if unit.rewrite_each:
        steps: tuple[Step, ...] = tuple(rules.rewrite([((file,),)]) for file in unit.files)
    else:
        steps = tuple(_steps(_sections(unit, levels), rules))
    drop_delete = unit.output_level >= levels.highest_nonempty or rules.deletion_vectors
    moved = {file.name for step in steps for file in step.files}
    kept = tuple(file for file in unit.files if file.name not in moved)
    return CompactionPlan(unit.output_level, drop_delete, steps, kept)


def _sections(unit: CompactionUnit, levels: Levels) -> Iterator[Section]:
    """The unit's files by overlapping keys, in key order, each section as the fewest sorted runs."""
    mins, maxs = file_key_ranges(unit.files, levels.key_types)
    for section in sections(mins, maxs):
        yield _runs(unit.files, section, mins, maxs)


def _runs(files: tuple[DataFile, ...], section: list[int], mins: KeyArray, maxs: KeyArray) -> Section:
    runs = sorted_runs(mins[section], maxs[section])
    return tuple(tuple(files[section[i]] for i in run) for run in runs)


def _steps(all_sections: Iterator[Section], rules: _Rules) -> Iterator[Step]:
    """The steps in key order. What waits to be rewritten together never reaches across a file that is not."""
    waiting: list[Section] = []
    for section in all_sections:
        if len(section) > 1:
            waiting.append(section)
            continue
        for file in section[0]:
            if file.size < rules.small_size:
                waiting.append(((file,),))
            else:
                yield from rules.flush(waiting)
                waiting = []
                yield from rules.upgrade(file)
    yield from rules.flush(waiting)


@dataclass(frozen=True)
class _Rules:
    """What decides between rewriting a file and moving it up, for one unit of one table.

    ``small_size`` in bytes: smaller files are rewritten with their neighbours. ``merges_older``: the outcome of a
    key depends on the values of its older version. ``same_format``: the format of level 0 is that of the output level.
    """

    output_level: int
    max_level: int
    lookup: bool
    deletion_vectors: bool
    small_size: int
    rewrite_all: bool
    merges_older: bool
    same_format: bool

    @classmethod
    def of(cls, unit: CompactionUnit, levels: Levels, options: Options, lookup: bool) -> _Rules:
        formats, default = options.get_option(FILE_FORMAT_PER_LEVEL), options.get_option(FILE_FORMAT)
        return cls(
            output_level=unit.output_level,
            max_level=levels.max_level,
            lookup=lookup,
            deletion_vectors=options.get_option(DELETION_VECTORS),
            small_size=int(options.get_option(TARGET_FILE_SIZE) * options.get_option(SMALL_FILE_RATIO)),
            rewrite_all=options.get_option(FORCE_REWRITE_ALL_FILES),
            merges_older=not newest_decides(options),
            same_format=formats.get(0, default) == formats.get(unit.output_level, default),
        )

    def flush(self, waiting: list[Section]) -> Iterator[Step]:
        """Rewrite what waits, unless it is a single run, which has nothing to merge with."""
        if len(waiting) == 1 and len(waiting[0]) == 1:
            for file in waiting[0][0]:
                yield from self.upgrade(file)
        elif waiting:
            yield self.rewrite(waiting)

    def rewrite(self, waiting: list[Section]) -> Rewrite:
        """Older versions are looked up for rows of level 0 only: those of other levels have marked theirs before."""
        from_level_0 = any(file.level == 0 for section in waiting for run in section for file in run)
        return Rewrite(tuple(waiting), self.lookup and from_level_0)

    def upgrade(self, file: DataFile) -> Iterator[Step]:
        """Move a file up that overlaps no other of the unit; none where it is at the output level already."""
        if self._must_rewrite(file):
            yield self.rewrite([((file,),)])
        elif file.level != self.output_level:
            yield Upgrade(file, self._must_look_up(file))

    def _must_rewrite(self, file: DataFile) -> bool:
        may_have_deletes = file.delete_row_count != 0
        if self.rewrite_all or (may_have_deletes and self.output_level == self.max_level):
            return True
        if not self.lookup or file.level != 0:
            return False
        in_place = self.same_format and not (may_have_deletes and self.deletion_vectors)
        return not in_place or (self.merges_older and self.output_level < self.max_level)

    def _must_look_up(self, file: DataFile) -> bool:
        return self.deletion_vectors and file.level == 0 and self.output_level < self.max_level
