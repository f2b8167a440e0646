"""Sorted merge: several sorted runs, or one unsorted buffer, become one sequence of merged rows.

Runs are merged a window at a time, so that memory stays bounded by the window and the number of runs, not by the
runs' length. Each run holds at least ``window_rows`` rows, or all that it has left. The *bound* is the smallest last
key among the runs that have more to come: no key up to the bound can appear again, so all rows up to it are one
window, merged at once; the rest waits.

    run 0   1 4 7 9 | …         bound = min(9, 6) = 6          window: 1 4 | 2 4 6 | 3
    run 1   2 4 6 | …                                          waits:  7 9 |       | 8
    run 2   3 8                  (all there, does not bound)

Normalised keys compare within one call only, so neither the bound nor a run's share of a window can be found with
keys kept from before; and normalising everything that waits again and again would cost more than the merge. So the
bound and each run's share are found from samples: every √n-th key of each run, then the keys between two samples.
Each row is normalised in full once, in the window that merges it.

Source: ``MergeTreeReaders`` and ``SortMergeReader`` of Apache Paimon (which merge record by record).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.files.key_values import Int64Array, KeyValues, concat
from paimon_spark.merge.engine import MergeEngine
from paimon_spark.merge.key_groups import group_rows
from paimon_spark.merge.keys import KeyArray, normalize
from paimon_spark.types import DataField

WINDOW_ROWS = 65_536
WINDOW_BYTES = 64 * 2**20


def fold(keys: KeyArray, rows: KeyValues, engine: MergeEngine) -> KeyValues:
    """Sort the rows by key and age and merge those of each key.

    ``keys`` are the rows' normalised keys (of one ``normalize`` call), or any array whose order and equality are those
    wanted. Without sequence numbers the rows' positions are their age.

    :raises InvalidInput: what the engine refuses
    """
    order = engine.user_sequence
    ranks = None if order is None else order.ranks(rows.values)
    return engine.merge(rows, group_rows(keys, rows, ranks))


def merge_runs(
    runs: Sequence[Iterator[KeyValues]],
    key_fields: Sequence[DataField],
    engine: MergeEngine,
    window_rows: int = WINDOW_ROWS,
) -> Iterator[KeyValues]:
    """The merged rows of ``runs`` in key order, in batches of up to ``window_rows`` + one batch per run.

    ``runs`` are ordered oldest first, which is what decides between records of a key when they have no sequence
    numbers. Memory: ``window_rows`` (fewer where they have WINDOW_BYTES) and one batch per run, and the merged window.

    Requires: the batches of a run are sorted by ``key_fields``, and a run has a key at most once; either all batches
    of all runs have sequence numbers or none has.

    :raises InvalidInput: what the engine refuses
    """
    heads = [_RunHead(run) for run in runs]
    while True:
        for head in heads:
            head.fill(window_rows)
        heads = [head for head in heads if len(head.rows)]
        if not heads:
            return
        if len(heads) == 1:
            yield heads[0].pop(len(heads[0].rows))
            continue
        shares = _shares(heads, key_fields)
        parts = [head.pop(share) for head, share in zip(heads, shares, strict=True) if share]
        if len(parts) == 1:
            yield parts[0]
            continue
        window = concat(parts)
        merged = fold(_keys(window.values, key_fields), window, engine)
        if len(merged):
            yield merged


class _RunHead:
    """The rows of one run that are in memory, and the rest of the run."""

    rows: KeyValues

    def __init__(self, run: Iterator[KeyValues]) -> None:
        self._run = run
        self.rows = KeyValues(pa.table({}))
        self.more = True

    def fill(self, count: int) -> None:
        """Load batches until there are ``count`` rows, or WINDOW_BYTES of them, or all."""
        parts = [self.rows] if len(self.rows) else []
        held = len(self.rows)
        while self.more and held < count and sum(part.nbytes for part in parts) < WINDOW_BYTES:
            batch = next(self._run, None)
            if batch is None:
                self.more = False
            elif len(batch):
                parts.append(batch)
                held += len(batch)
        if len(parts) > 1 or not len(self.rows):
            self.rows = concat(parts) if parts else self.rows

    def pop(self, count: int) -> KeyValues:
        """Remove and return the first ``count`` rows."""
        popped, self.rows = self.rows.slice(0, count), self.rows.slice(count, len(self.rows))
        return popped


def _keys(values: pa.Table, key_fields: Sequence[DataField]) -> KeyArray:
    return normalize([values.column(f.name) for f in key_fields], [f.type for f in key_fields])


def _shares(heads: Sequence[_RunHead], key_fields: Sequence[DataField]) -> list[int]:
    """How many rows of each head are not above the bound; at least one head's rows are all among them."""
    sizes = [len(head.rows) for head in heads]
    strides = [math.isqrt(size - 1) + 1 for size in sizes]
    samples = [np.append(np.arange(0, size - 1, stride), size - 1) for size, stride in zip(sizes, strides, strict=True)]
    sampled = _keys_at(heads, samples, key_fields)
    bounding = [i for i, head in enumerate(heads) if head.more]
    if not bounding:
        return sizes
    bound_head = min(bounding, key=lambda i: sampled[i][-1])
    bound = sampled[bound_head][-1]
    below = [int(np.searchsorted(keys, bound, side="right")) for keys in sampled]
    # The last sample not above the bound, and the first above it, enclose the rows that are still undecided.
    starts = [int(at[n - 1]) + 1 if n else 0 for at, n in zip(samples, below, strict=True)]
    stops = [int(at[n]) if n < len(at) else size for at, n, size in zip(samples, below, sizes, strict=True)]
    between = [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]
    between[bound_head] = np.array([sizes[bound_head] - 1])
    undecided = _keys_at(heads, between, key_fields)
    bound = undecided[bound_head][0]
    shares = [
        start + int(np.searchsorted(keys, bound, side="right")) for start, keys in zip(starts, undecided, strict=True)
    ]
    shares[bound_head] = sizes[bound_head]
    return shares


def _keys_at(heads: Sequence[_RunHead], rows: Sequence[Int64Array], key_fields: Sequence[DataField]) -> list[KeyArray]:
    """The keys of those rows of each head, comparable with each other."""
    names = [f.name for f in key_fields]
    picked = [head.rows.values.select(names).take(to_arrow(at)) for head, at in zip(heads, rows, strict=True)]
    keys = _keys(pa.concat_tables(picked), key_fields)
    return np.split(keys, np.cumsum([len(at) for at in rows])[:-1])
