"""Which groups of a file are decoded, and where in the file the decoded rows are.

Deletion vectors count rows from the start of the file, so when groups are left out the decoded rows have gaps::

    groups           0 [0, 100)   1 [100, 250)   2 [250, 300)        group 1 is left out
    decoded rows     0 … 99                      100 … 149
    their positions  0 … 99                      250 … 299
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.predicate import BoolArray

_RARE, _FEW = 500, 4


class Deletion(Protocol):
    """The deleted rows of a file."""

    def mask(self, start: int, stop: int) -> BoolArray:
        """For each row position from ``start`` to ``stop`` (exclusive) whether the row is kept."""
        ...


@dataclass(frozen=True)
class RowGroups:
    """The groups to decode: their numbers, and the positions [start, stop) of the rows of each."""

    numbers: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]

    @staticmethod
    def choose(group_rows: Sequence[int], may_match: BoolArray | None, deletion: Deletion | None) -> RowGroups:
        """The groups that may hold wanted rows: not excluded by ``may_match``, and not deleted altogether."""
        numbers, ranges, start = [], [], 0
        for number, rows in enumerate(group_rows):
            stop = start + rows
            wanted = rows > 0 and (may_match is None or bool(may_match[number]))
            if wanted and (deletion is None or bool(deletion.mask(start, stop).any())):
                numbers.append(number)
                ranges.append((start, stop))
            start = stop
        return RowGroups(tuple(numbers), tuple(ranges))

    @property
    def row_count(self) -> int:
        """Rows in the chosen groups."""
        return sum(stop - start for start, stop in self.ranges)

    def keep(self, deletion: Deletion, first: int, count: int) -> BoolArray:
        """Which of the decoded rows ``first`` to ``first + count`` are not deleted."""
        parts, before = [], 0
        for start, stop in self.ranges:
            low, high = max(first - before, 0), min(first + count - before, stop - start)
            if low < high:
                parts.append(deletion.mask(start + low, start + high))
            before += stop - start
        return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def kept_rows(batch: pa.RecordBatch, keep: BoolArray) -> pa.RecordBatch:
    """The rows of ``batch`` where ``keep`` is true.

    Deletions are mostly rare, and three ways to leave rows out differ by up to four times: joining the runs between
    a few deleted rows, filtering column by column while most rows stay, and otherwise gathering the rows that stay.
    """
    gone = np.flatnonzero(~keep)
    if gone.size == 0:
        return batch
    if gone.size * _RARE < len(keep):
        starts, stops = [0, *(gone + 1).tolist()], [*gone.tolist(), len(keep)]
        runs = [(start, stop - start) for start, stop in zip(starts, stops, strict=True) if start < stop]
        columns = [pa.concat_arrays([column.slice(*run) for run in runs]) for column in batch.columns]
    elif gone.size * _FEW < len(keep):
        columns = [column.filter(to_arrow(keep)) for column in batch.columns]
    else:
        return batch.filter(to_arrow(keep))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
