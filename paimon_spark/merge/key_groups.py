"""KeyGroups: the rows of a window in merge order, cut at each new key.

Merge order is by key, then by the user's sequence columns (``sequence.field``), then by sequence number, then retracts
before adds, then by position. Rows mostly arrive as a few sorted runs, oldest first, so one stable sort by key — which
gallops over sorted runs — nearly always leaves the rows of every key in their order of age. That is checked by
comparing neighbours, and only the keys that turn out to be wrong are sorted again by the full order.

Source: ``SortMergeReaderWithLoserTree`` and ``UserDefinedSeqComparator`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.files.key_values import Int64Array, KeyValues
from paimon_spark.merge.keys import KeyArray

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class KeyGroups:
    """``order``: row numbers in merge order. ``starts``: for each key in key order, where in ``order`` it begins.

    Every key has at least one row. A *position* is an offset in ``order``.
    """

    order: Int64Array
    starts: Int64Array

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.starts)

    @property
    def all_single(self) -> bool:
        """Whether no key has two rows."""
        return len(self.order) == len(self.starts)

    @property
    def last(self) -> Int64Array:
        """Position of each key's newest row."""
        return np.append(self.starts[1:], len(self.order))[: len(self.starts)] - 1

    @property
    def counts(self) -> Int64Array:
        """How many rows each key has."""
        return self.last + 1 - self.starts

    def spread(self, of_keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One value a key → that value at each of the key's positions."""
        return np.repeat(of_keys, self.counts)

    def any(self, at_positions: BoolArray) -> BoolArray:
        """Which keys have a position where the mask is set."""
        if not len(self):
            return np.zeros(0, np.bool_)
        return np.logical_or.reduceat(at_positions, self.starts)

    def greatest(self, at_positions: Int64Array) -> Int64Array:
        """The greatest value of each key."""
        return at_positions[:0] if not len(self) else np.maximum.reduceat(at_positions, self.starts)

    def newest(self, mask: BoolArray) -> Int64Array:
        """Position of each key's newest row where the mask is set; -1 where there is none."""
        return self.greatest(np.where(mask, np.arange(len(self.order)), -1))

    def keep(self, mask: BoolArray) -> KeyGroups:
        """The positions where the mask is set; keys that lose all of theirs are gone."""
        if mask.all():
            return self
        kept = np.concatenate(([0], np.cumsum(mask)))
        starts = kept[self.starts]
        counts = kept[self.last + 1] - starts
        return KeyGroups(self.order[mask], starts[counts > 0])

    def multiple(self) -> tuple[Int64Array, KeyGroups]:
        """The keys that have two rows or more: their numbers, and their groups."""
        several = self.counts > 1
        if several.all():
            return np.arange(len(self)), self
        return np.flatnonzero(several), self.keep(self.spread(several))


def group_rows(keys: KeyArray, rows: KeyValues, user_ranks: Int64Array | None = None) -> KeyGroups:
    """Put the rows into merge order.

    ``keys`` are the rows' normalised keys (of one ``normalize`` call). ``user_ranks`` are the ranks of the
    ``sequence.field`` columns, greater is newer. Without sequence numbers the rows' positions are their age.
    """
    if not len(keys):
        return KeyGroups(np.zeros(0, np.int64), np.zeros(0, np.int64))
    order = _sorted_by_key(keys)
    in_order = keys[order]
    new_key = np.concatenate(([True], in_order[1:] != in_order[:-1]))
    starts = np.flatnonzero(new_key)
    if len(starts) < len(order):
        order = _by_age(order, starts, new_key, _age_columns(rows, user_ranks))
    return KeyGroups(order, starts)


def _sorted_by_key(keys: KeyArray) -> Int64Array:
    if bool((keys[1:] >= keys[:-1]).all()):
        return np.arange(len(keys))
    return np.argsort(keys, kind="stable")


def _age_columns(rows: KeyValues, user_ranks: Int64Array | None) -> list[npt.NDArray[Any]]:
    """What decides the order of a key's rows before their position does, most important first."""
    columns: list[npt.NDArray[Any]] = [] if user_ranks is None else [user_ranks]
    if rows.sequence is not None:
        columns.append(rows.sequence)
        retract = rows.is_retract()
        if retract is not None:
            columns.append(~retract)
    return columns


def _by_age(
    order: Int64Array, starts: Int64Array, new_key: BoolArray, columns: Sequence[npt.NDArray[Any]]
) -> Int64Array:
    """The order with the rows of each key sorted by the age columns, ties by position."""
    if not columns:
        return order
    older = np.flatnonzero(~new_key[1:])
    wrong = older[_in_wrong_order(order[older], order[older + 1], columns)]
    if not len(wrong):
        return order
    numbers = np.cumsum(new_key) - 1
    affected = np.zeros(len(starts), np.bool_)
    affected[numbers[wrong]] = True
    positions = np.flatnonzero(affected[numbers])
    unsorted = order[positions]
    by_age = np.lexsort((*(c[unsorted] for c in reversed(columns)), numbers[positions]))
    result: Int64Array = order.copy()
    result[positions] = unsorted[by_age]
    return result


def _in_wrong_order(first: Int64Array, second: Int64Array, columns: Sequence[npt.NDArray[Any]]) -> BoolArray:
    """For each pair of rows, whether the age columns put the second before the first."""
    result = np.zeros(len(first), np.bool_)
    for column in reversed(columns):
        older, newer = column[first], column[second]
        result = (newer < older) | ((newer == older) & result)
    return result


def pick_rows(rows: KeyValues, picks: Int64Array) -> KeyValues:
    """The picked rows; the very same object when those are all rows in their order."""
    if len(picks) == len(rows) and bool((picks == np.arange(len(picks))).all()):
        return rows
    return rows.take(picks)


def kinds_or_none(kinds: npt.NDArray[np.int8] | None) -> npt.NDArray[np.int8] | None:
    """The kinds, or None when every row is +I."""
    return None if kinds is None or not kinds.any() else kinds
