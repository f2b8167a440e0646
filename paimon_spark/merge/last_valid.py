"""LastValid: the newest record of each key that has a value in a column ("null means unknown").

Nearly every key finds it in its newest record or a few steps behind, so all keys step back together from their newest
record, on the shrinking set of those that still stand on a null; what is left after a bounded number of rounds is
found by one pass over everything. Columns with the very same nulls, typical of a feed that always fills the same
columns, share one search.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import is_valid
from paimon_spark.files.key_values import Int64Array
from paimon_spark.merge.key_groups import BoolArray, KeyGroups

_ROUNDS = 8


class LastValid:
    """Finds the newest valid record of each key among the rows of ``groups``, column by column."""

    def __init__(self, groups: KeyGroups) -> None:
        self._groups = groups
        self._newest = groups.order[groups.last]
        self._found: list[tuple[int, BoolArray, Int64Array]] = []

    def rows(self, column: pa.ChunkedArray) -> Int64Array:
        """For each key the row of its newest valid value in ``column``; of its oldest record when all are null.

        Equal answers are the same object.
        """
        nulls = column.null_count
        if nulls == 0:
            return self._newest
        valid = is_valid(column)
        for known_nulls, known_valid, rows in self._found:
            if known_nulls == nulls and np.array_equal(known_valid, valid):
                return rows
        rows = self._groups.order[_last_valid(self._groups, valid)]
        self._found.append((nulls, valid, rows))
        return rows


def _last_valid(groups: KeyGroups, valid: BoolArray) -> Int64Array:
    """Position of each key's newest row that is valid (``valid`` is by row); of its oldest row when none is."""
    order, starts = groups.order, groups.starts
    picks = groups.last
    open_keys = np.flatnonzero(~valid[order[picks]] & (picks > starts))
    for _ in range(_ROUNDS):
        if not len(open_keys):
            return picks
        stepped = picks[open_keys] - 1
        picks[open_keys] = stepped
        open_keys = open_keys[~valid[order[stepped]] & (stepped > starts[open_keys])]
    if len(open_keys):
        newest = np.maximum(groups.newest(valid[order]), starts)
        picks[open_keys] = newest[open_keys]
    return picks
