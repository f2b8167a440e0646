"""OlderVersions: where, among the files above the output level, the older versions of new keys are.

The new keys, those of the level-0 files of a compaction, are sorted, and so are the keys of every run above. There are
two ways to find the ones in the others:

* **Scan**: read the key columns of a run from one end to the other and join the two sequences, batch by batch. That
  costs 10 to 50 nanoseconds a stored row.
* **Lookup**: ask the local lookup files of the run's files. That costs a quarter of a microsecond a new key, and the
  first time half a microsecond a stored row to build them.

So it is the number of stored rows for each new key that decides. Both leave out rows that are deleted already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.compact.bucket_files import BucketFiles
from paimon_spark.compact.deletion_maintainer import DeletionVectorMaintainer
from paimon_spark.compact.levels import LevelRun
from paimon_spark.files.key_values import KeyValues
from paimon_spark.lookup import LookupLevels
from paimon_spark.merge.deduplicate import Deduplicate
from paimon_spark.merge.keys import normalize
from paimon_spark.merge.sections import file_key_ranges
from paimon_spark.merge.sorted_merge import merge_runs
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.predicate import Predicate

SCAN_RATIO = 64
"""Stored rows for each new key up to which the stored keys are scanned."""

Positions = dict[str, BitMap]
"""Rows of data files: their positions, by the name of the file. No bitmap is empty."""


@dataclass(frozen=True)
class OlderVersions:
    """Searches ``upper``, the runs above the output level; ``lookup`` opens the bucket's lookup files (None: it always
    scans). Of new keys, only those that satisfy ``wanted``, a predicate on key columns, are searched."""

    files: BucketFiles
    vectors: DeletionVectorMaintainer
    upper: Sequence[LevelRun]
    lookup: Callable[[], LookupLevels] | None
    wanted: Predicate | None = None

    def of(self, new: Sequence[DataFile]) -> Positions:
        """The rows that have a key of the files ``new``, which may overlap.

        Memory: a batch of keys of each new file, and the positions.

        :raises NotFound: a data file is gone
        :raises CorruptFile: a data file is damaged
        :raises StorageError: the storage or the local disk failed
        """
        runs = self._overlapping(new)
        stored = sum(file.row_count for run in runs for file in run)
        found: Positions = defaultdict(BitMap)
        if self.lookup is None or stored <= SCAN_RATIO * sum(file.row_count for file in new):
            for run in runs:
                self._scan(run, self._new_keys(new), found)
        else:
            self._look_up(self.lookup(), self._new_keys(new), found)
        return {name: positions for name, positions in found.items() if positions}

    def _overlapping(self, new: Sequence[DataFile]) -> list[list[DataFile]]:
        """The files of each run that may have a key of ``new``."""
        files = [*new, *(file for run in self.upper for file in run.files)]
        mins, maxs = file_key_ranges(files, [f.type for f in self.files.schema.key_fields])
        _, ranks = np.unique(np.concatenate([mins, maxs]), return_inverse=True)
        mins, maxs = ranks[: len(files)], ranks[len(files) :]
        least, greatest = mins[: len(new)].min(), maxs[: len(new)].max()
        near = {
            file.name for file, low, high in zip(files, mins, maxs, strict=True) if low <= greatest and high >= least
        }
        runs = ([file for file in run.files if file.name in near] for run in self.upper)
        return [run for run in runs if run]

    def _new_keys(self, new: Sequence[DataFile]) -> Iterator[KeyValues]:
        """The keys of those files in order, each once."""
        fields = self.files.schema.key_fields
        runs = [self.files.read(file, fields, sequence=False, deletion=self.vectors.vector(file.name)) for file in new]
        for keys in merge_runs(runs, fields, Deduplicate()):
            values = keys.values if self.wanted is None else keys.values.filter(self.wanted.mask(keys.values))
            if values.num_rows:
                yield KeyValues(values)

    def _look_up(self, lookup: LookupLevels, new_keys: Iterator[KeyValues], found: Positions) -> None:
        start = self.upper[0].level
        for keys in new_keys:
            columns = [column.combine_chunks() for column in keys.values.columns]
            hits = lookup.lookup_many(columns, start, self.vectors.vector)
            assert hits.positions is not None
            for number, file in enumerate(hits.files):
                found[file.name] |= BitMap(hits.positions[hits.file == number].astype(np.uint32))

    def _scan(self, run: Sequence[DataFile], new_keys: Iterator[KeyValues], found: Positions) -> None:
        """Join two ascending sequences of keys, batch by batch.

        Of the two batches at hand, the one that ends first is done with; of the other, what is above its end stays.
        """
        types = [f.type for f in self.files.schema.key_fields]
        stored = self._stored_keys(run)
        new = _next_keys(new_keys)
        old = None if new is None else next(stored, None)
        while new is not None and old is not None:
            both = normalize(pa.concat_tables([new, old.keys]).columns, types)
            wanted, there = both[: new.num_rows], both[new.num_rows :]
            at = np.searchsorted(there, wanted)
            hits = at[there[np.minimum(at, len(there) - 1)] == wanted]
            found[old.file] |= BitMap((old.start + hits).astype(np.uint32))
            if wanted[-1] <= there[-1]:
                new = _next_keys(new_keys)
            else:
                new = new.slice(int(np.searchsorted(wanted, there[-1], side="right")))
                old = next(stored, None)
        for name in {file.name for file in run} & found.keys():
            vector = self.vectors.vector(name)
            if vector is not None:
                found[name] -= vector.bitmap

    def _stored_keys(self, run: Sequence[DataFile]) -> Iterator[_StoredKeys]:
        """All keys of a run, those of deleted rows too, for positions count them."""
        for file in run:
            start = 0
            for rows in self.files.read(file, self.files.schema.key_fields, sequence=False, deletion=None):
                yield _StoredKeys(file.name, start, rows.values)
                start += len(rows)


@dataclass(frozen=True)
class _StoredKeys:
    """The keys of the rows of a file from position ``start`` on."""

    file: str
    start: int
    keys: pa.Table


def _next_keys(batches: Iterator[KeyValues]) -> pa.Table | None:
    batch = next(batches, None)
    return None if batch is None else batch.values
