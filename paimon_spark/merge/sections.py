"""Sections: files whose key ranges are chained by overlaps, and the sorted runs that cover a section.

A section shares no key with any other, so sections are read, merged and rewritten on their own. Files a [1, 5],
b [2, 3], c [4, 9] and d [10, 11] make the sections (a, b, c) and (d): b and c do not overlap, but a joins them. The
first takes two runs, (a) and (b, c): files of a run do not overlap and follow each other by key.

Source: ``IntervalPartition`` of Apache Paimon.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from paimon_spark.merge.keys import KeyArray, normalize
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.rows.arrow_buffers import Int64Array
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import DataType


def file_key_ranges(files: Sequence[DataFile], key_types: Sequence[DataType]) -> tuple[KeyArray, KeyArray]:
    """The normalized least and greatest keys of ``files``, all comparable with each other.

    ``key_types`` are the types of the trimmed primary key.

    :raises CorruptFile: a bound is not a row of those types
    """
    bounds = [file.min_key for file in files] + [file.max_key for file in files]
    keys = normalize(decode(bounds, key_types), key_types)
    return keys[: len(files)], keys[len(files) :]


def sections(min_keys: KeyArray, max_keys: KeyArray) -> list[list[int]]:
    """The numbers of the files of each section, sections in key order, files by least and then greatest key.

    Both bounds are inclusive. Requires: the two arrays are comparable, as those of :func:`file_key_ranges` are.
    """
    if not len(min_keys):
        return []
    mins, maxs = _ranks(min_keys, max_keys)
    order = _by_range(mins, maxs)
    reached = np.maximum.accumulate(maxs[order])
    cuts = np.flatnonzero(mins[order][1:] > reached[:-1]) + 1
    return [part.tolist() for part in np.split(order, cuts)]


def sorted_runs(min_keys: KeyArray, max_keys: KeyArray) -> list[list[int]]:
    """The numbers of the files of each run, in the fewest runs of files that do not overlap, files in key order.

    Runs are in the order of their first files. Requires as :func:`sections` does.
    """
    mins, maxs = _ranks(min_keys, max_keys)
    runs: list[list[int]] = []
    ends: list[tuple[int, int]] = []
    for file in _by_range(mins, maxs).tolist():
        least, greatest = int(mins[file]), int(maxs[file])
        if ends and ends[0][0] < least:
            run = ends[0][1]
            heapq.heapreplace(ends, (greatest, run))
        else:
            run = len(runs)
            runs.append([])
            heapq.heappush(ends, (greatest, run))
        runs[run].append(file)
    return runs


def _ranks(min_keys: KeyArray, max_keys: KeyArray) -> tuple[Int64Array, Int64Array]:
    """The bounds as comparable small numbers: byte strings have no running maximum."""
    _, ranks = np.unique(np.concatenate([min_keys, max_keys]), return_inverse=True)
    return ranks[: len(min_keys)], ranks[len(min_keys) :]


def _by_range(mins: Int64Array, maxs: Int64Array) -> Int64Array:
    return np.lexsort((maxs, mins))
