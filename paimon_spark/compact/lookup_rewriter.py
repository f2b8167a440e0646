"""Lookup: what the new rows of a compaction replace further down, and how they are merged with it.

A table with deletion vectors is read without merging, because of each key no more than one row of level 1 or higher is
not deleted. Rows of level 0 are what has not been put in order yet. When they leave level 0, the older version of each
of their keys, if there is one that the compaction does not rewrite anyway, is looked up in the levels above the output
level and marked deleted. Where the outcome for a key depends on the older version (partial-update, or a
``sequence.field``), that version takes part in the merge, too. It is marked even if it wins, for it is written anew.
Example, columns k, a, b of a partial-update table, output level 4:

    level 5, F   (1, x, x) (2, y, y) (3, z, z)      level 0   (2, null, w) (3, v, null) (4, u, u)

    looked up: 2, 3, 4        found: F at 1 and 2        merged: (2, y, w) (3, v, z) (4, u, u), at level 4
    deleted in F: 1, 2

Only keys are looked up (:mod:`~paimon_spark.compact.older_versions`). The older versions themselves are read from
their data files, as one more sorted run for each level; row groups without a hit are skipped.

Java wraps the merge engine, so that of several records from levels above 0 only the newest counts. Here that holds by
itself: the inputs come with their deletion vectors applied.

Source: ``LookupMergeTreeCompactRewriter`` and ``LookupChangelogMergeFunctionWrapper`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from paimon_spark.compact.older_versions import OlderVersions, Positions
from paimon_spark.compact.rewriter import Rewriter
from paimon_spark.compact.task import Rewrite
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.row_groups import AllBut
from paimon_spark.merge.run_order import Run, oldest_first
from paimon_spark.metadata.data_file import DataFile


@dataclass(frozen=True)
class LookupRewriter:
    """Compacts files of level 0 of one bucket.

    ``older`` searches the runs above the output level. ``merges_older``: the outcome for a key depends on its older
    version's values. ``marks``: the table has deletion vectors.
    """

    rewriter: Rewriter
    older: OlderVersions
    merges_older: bool
    marks: bool

    def rewrite(self, step: Rewrite) -> list[DataFile]:
        """The new files of a step, whose older versions are marked deleted. Raises as :meth:`Rewriter.rewrite`."""
        wanted = self.merges_older or self.marks
        older = self.older.of([file for file in step.files if file.level == 0]) if wanted else {}
        if self.merges_older and older:
            created = self.rewriter.write(self._merged(step, older))
        else:
            created = self.rewriter.rewrite(step.sections)
        self._mark(older)
        return created

    def upgrade(self, file: DataFile) -> None:
        """Mark what the rows of a file of level 0 replace that moves up as it is."""
        self._mark(self.older.of([file]))

    def _merged(self, step: Rewrite, older: Positions) -> Iterator[KeyValues]:
        """The rows of all sections merged with their older versions.

        Sections share no key, so the i-th runs of all of them are one run. That way a file of older versions is read
        once, however many sections it reaches across.
        """
        across = zip_longest(*map(oldest_first, step.sections), fillvalue=())
        new = [tuple(file for run in runs for file in run) for runs in across]
        old = [files for run in self.older.upper if (files := tuple(f for f in run.files if f.name in older))]
        rewriter = self.rewriter
        return rewriter.merge(
            [self._older(run, older) if run in old else rewriter.run(run) for run in oldest_first([*new, *old])]
        )

    def _older(self, run: Run, older: Positions) -> Iterator[KeyValues]:
        """The older versions that a sorted run has."""
        bucket = self.rewriter.files
        for file in run:
            yield from bucket.read(file, bucket.schema.fields, sequence=True, deletion=AllBut(older[file.name]))

    def _mark(self, older: Positions) -> None:
        for name, positions in older.items() if self.marks else ():
            self.rewriter.vectors.mark(name, positions)
