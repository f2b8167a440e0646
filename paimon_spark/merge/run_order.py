"""The age of sorted runs: which are older, and whether that alone tells the age of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from paimon_spark.metadata.data_file import DataFile

Run = Sequence[DataFile]


def oldest_first(runs: Iterable[Run]) -> list[Run]:
    """The runs by their smallest sequence number; of equal ones that of the higher level first, which has been there
    for longer."""
    return sorted(runs, key=lambda run: (min(f.min_sequence for f in run), -max(f.level for f in run)))


def are_apart(runs: Sequence[Run]) -> bool:
    """Whether every sequence number of a run is greater than all of the runs before it; then the order of the runs is
    the order of age, and sequence numbers need not be read.

    Requires: the runs are ordered by :func:`oldest_first`.
    """
    last = [max(f.max_sequence for f in run) for run in runs]
    first = [min(f.min_sequence for f in run) for run in runs]
    return bool(np.all(np.less(np.maximum.accumulate(last)[:-1], first[1:])))
