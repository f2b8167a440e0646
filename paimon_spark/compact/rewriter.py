"""Rewriting: the rows of some sorted runs, merged, in new files of the output level.

Everything streams: in memory are the rows of each run that wait for the others (all together no more than
``sort-spill-buffer-size``, or a batch of each run), those that are being merged, and the row group that the writer
collects (``parquet.block.size``). Deletion vectors are applied to the inputs first, for what they delete has no part
in a merge.

Source: ``MergeTreeCompactRewriter`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from paimon_spark.compact.bucket_files import BucketFiles
from paimon_spark.compact.compact_options import SORT_BUFFER_SIZE
from paimon_spark.compact.deletion_maintainer import DeletionVectorMaintainer
from paimon_spark.compact.task import Section
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.writer import RollingWriter
from paimon_spark.merge.engine import MergeEngine, merge_engine
from paimon_spark.merge.run_order import oldest_first
from paimon_spark.merge.sorted_merge import WINDOW_ROWS, merge_runs
from paimon_spark.metadata.data_file import COMPACT, DataFile


@dataclass(frozen=True)
class Rewriter:
    """Rewrites files of one bucket into ``output_level``; ``drop_delete`` leaves out what is deleted in the end."""

    files: BucketFiles
    vectors: DeletionVectorMaintainer
    output_level: int
    drop_delete: bool

    def rewrite(self, sections: Sequence[Section]) -> list[DataFile]:
        """The new files, in key order; none is left behind when this fails.

        Requires: the sections are in key order and share no key.

        :raises InvalidInput: the merge engine refuses the records
        :raises NotFound: a file is gone
        :raises CorruptFile: a file is damaged
        """
        return self.write(rows for section in sections for rows in self._merged(section))

    def write(self, batches: Iterable[KeyValues]) -> list[DataFile]:
        """Write merged rows, in key order, to new files; none is left behind when this fails."""
        files, schema = self.files, self.files.schema
        writer = RollingWriter(
            files.metadata.storage, files.directory, schema, schema.options, self.output_level, COMPACT
        )
        try:
            for rows in batches:
                writer.write(without_retracts(rows) if self.drop_delete else rows)
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def run(self, files: Iterable[DataFile]) -> Iterator[KeyValues]:
        """The rows of a sorted run that are not deleted."""
        for file in files:
            vector = self.vectors.vector(file.name)
            yield from self.files.read(file, self.files.schema.fields, sequence=True, deletion=vector)

    def merge(self, runs: Sequence[Iterator[KeyValues]]) -> Iterator[KeyValues]:
        """The merged rows of some runs, oldest first.

        Requires: the batches of a run have about the same width.
        """
        buffer = self.files.schema.options.get_option(SORT_BUFFER_SIZE)
        heads = [next(run, None) for run in runs]
        width = max((head.nbytes / max(len(head), 1) for head in heads if head is not None), default=1.0)
        rows = int(buffer / (max(width, 1.0) * max(len(runs), 1)))
        rest = [run if head is None else chain([head], run) for head, run in zip(heads, runs, strict=True)]
        return merge_runs(rest, self.files.schema.key_fields, self._engine, min(max(rows, 1), WINDOW_ROWS))

    def _merged(self, section: Section) -> Iterator[KeyValues]:
        return self.merge([self.run(run) for run in oldest_first(section)])

    @property
    def _engine(self) -> MergeEngine:
        return merge_engine(self.files.schema)


def without_retracts(rows: KeyValues) -> KeyValues:
    """The rows that are +I or +U."""
    retract = rows.is_retract()
    if retract is None:
        return rows
    return rows.take(np.flatnonzero(~retract))
