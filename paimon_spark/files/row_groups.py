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
from pyroaring import BitMap

from paimon_spark.arrays import to_arrow
from paimon_spark.predicate import BoolArray


class Deletion(Protocol):
    """The deleted rows of a file."""

    def mask(self, start: int, stop: int) -> BoolArray:
        """For each row position from ``start`` to ``stop`` (exclusive) whether the row is kept."""
        ...


@dataclass(frozen=True)
class AllBut:
    """Stands for the deletion of all rows of a file but those at ``positions``."""

    positions: BitMap

    def mask(self, start: int, stop: int) -> BoolArray:
        """Which of the rows from ``start`` to ``stop`` (exclusive) are among them."""
        keep = np.zeros(stop - start, np.bool_)
        inside = (self.positions & BitMap(range(start, stop))).to_array()
        keep[np.frombuffer(inside, np.uint32).astype(np.int64) - start] = True
        return keep


@dataclass(frozen=True)
class RowGroups:
    """The groups to decode: their numbers, and the positions [start, stop) of the rows of each.

    ``keep`` tells for each of their rows, one group after another, whether it is left; None: all are. It takes a bit a
    row.
    """

    numbers: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    keep: pa.BooleanArray | None = None

    @staticmethod
    def choose(group_rows: Sequence[int], may_match: BoolArray | None, deletion: Deletion | None) -> RowGroups:
        """The groups that may hold wanted rows: not excluded by ``may_match``, and not deleted altogether."""
        numbers, ranges, keep, start = [], [], [], 0
        for number, rows in enumerate(group_rows):
            stop = start + rows
            wanted = rows > 0 and (may_match is None or bool(may_match[number]))
            if wanted and deletion is not None:
                left = deletion.mask(start, stop)
                wanted = bool(left.any())
                keep += [to_arrow(left)] if wanted else []
            if wanted:
                numbers.append(number)
                ranges.append((start, stop))
            start = stop
        return RowGroups(tuple(numbers), tuple(ranges), pa.concat_arrays(keep) if keep else None)

    @property
    def row_count(self) -> int:
        """Rows in the chosen groups."""
        return sum(stop - start for start, stop in self.ranges)
