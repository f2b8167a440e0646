"""The keys of a sort file's blocks in memory: ready for a search, and with the places of their values.

This is what a lookup needs of every block that it touches; of the values it needs those that were asked for. The keys
of a block are rows of one table for the whole file, which lie one after another; the blocks lie in the order in which
they came. So a batch is answered by one search of all its keys, each among the rows of its block, however many blocks
these are.

Where the entries of a block are alike, keys of one length and values of one length, the places of the values follow
from that of the first. If all blocks are like that, a key takes no more memory than itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from paimon_spark.lookup.key_search import OrderedKeys, SearchKeys, search_keys, search_within
from paimon_spark.lookup.sort_layout import Entries
from paimon_spark.rows.byte_strings import Int64s, Mask

Column: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class BlockRows:
    """The keys of some blocks, one block after another, ``counts`` of each, and the places of their values.

    ``alike``, of blocks whose entries are all alike: for each the start of its first value in its content, the distance
    of the next one, and the length of all. Otherwise ``places``: start and length of each value.
    """

    keys: SearchKeys
    counts: Int64s
    alike: Int64s | None
    places: Column | None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + (0 if self.places is None else self.places.nbytes)

    @staticmethod
    def of_entries(entries: Entries, ordered: OrderedKeys, begins: Int64s) -> BlockRows:
        """The rows of whole blocks: their entries, the keys of all of them in the form of their order, and where each
        block's content begins."""
        keys, counts = search_keys(ordered), entries.counts
        block_of = np.repeat(np.arange(len(counts)), counts)
        starts = entries.value_starts - begins.astype(np.int32).take(block_of)
        places = np.stack((starts, entries.value_lengths), axis=1)
        if _unlike(places, block_of, counts):
            return BlockRows(keys, counts, None, places)
        firsts = np.cumsum(counts) - counts
        heads = places.take(firsts, axis=0).astype(np.int64)
        steps = places.take(np.minimum(firsts + 1, len(places) - 1), axis=0)[:, 0] - heads[:, 0]
        alike = np.stack((heads[:, 0], np.where(counts > 1, steps, 0), heads[:, 1]), axis=1)
        return BlockRows(keys, counts, alike, None)


class KeyTable:
    """The keys of those blocks of a file that were added. One thread at a time."""

    def __init__(self, blocks: int) -> None:
        """An empty table for a file of so many blocks."""
        self.last_use = 0
        self._first = np.full(blocks, -1, np.int64)
        self._counts = np.zeros(blocks, np.int64)
        # Of blocks whose entries are alike: the first value's start, the next one's distance, and the length of all.
        self._alike = np.zeros((blocks, 3), np.int64)
        self._places: Column | None = None
        self._keys: SearchKeys | None = None
        self._rows = 0

    @staticmethod
    def of(rows: BlockRows) -> KeyTable:
        """A table of these blocks, in their order, alone."""
        table = KeyTable(len(rows.counts))
        table.add(np.arange(len(rows.counts)), rows)
        return table

    @property
    def nbytes(self) -> int:
        """Bytes in memory; room for rows to come is not, before it is used."""
        own = self._first.nbytes + self._counts.nbytes + self._alike.nbytes
        keys = 0 if self._keys is None else self._keys.part(slice(0, self._rows)).nbytes
        return own + keys + (0 if self._places is None else self._places[: self._rows].nbytes)

    def has(self, blocks: Int64s) -> Mask:
        """Which of these blocks it has the keys of."""
        known: Mask = self._first.take(blocks) >= 0
        return known

    def find(self, block_of: Int64s, wanted: OrderedKeys) -> tuple[Int64s, Int64s, Int64s]:
        """Which of the wanted keys are in their blocks, which the table has; and where the values of those start in the
        contents of their blocks, and their lengths."""
        assert self._keys is not None
        first = self._first.take(block_of)
        keys = search_keys(wanted, self._keys.form)
        rows, found = search_within(self._keys, first, self._counts.take(block_of), keys)
        hits = np.flatnonzero(found)
        rows = rows.take(hits)
        if self._places is not None:
            places = self._places.take(rows, axis=0).astype(np.int64)
            return hits, places[:, 0], places[:, 1]
        start, step, length = self._alike.take(block_of.take(hits), axis=0).T
        return hits, start + step * (rows - first.take(hits)), length

    def add(self, blocks: Int64s, rows: BlockRows) -> None:
        """Add the keys of blocks that it has not."""
        counts, before = rows.counts, self._rows
        after = before + len(rows.keys.values)
        # Memory that is not written to is not there, so what the other blocks will need is asked for at once.
        expected = after * len(self._counts) // max(1, int((self._first >= 0).sum()) + len(blocks))
        if self._places is None and rows.places is not None:
            known = np.flatnonzero(self._first >= 0)
            known = known[np.argsort(self._first[known])]
            self._places = _spread(self._alike[known], self._counts[known])
        if self._places is not None:
            places = _spread(rows.alike, counts) if rows.places is None else rows.places
            self._places = _joined(self._places, before, places, expected)
        elif rows.alike is not None:
            self._alike[blocks] = rows.alike
        self._keys = rows.keys if self._keys is None else self._joined_keys(self._keys, rows.keys, expected)
        self._first[blocks] = before + np.cumsum(counts) - counts
        self._counts[blocks] = counts
        self._rows = after

    def _joined_keys(self, known: SearchKeys, more: SearchKeys, expected: int) -> SearchKeys:
        form = max(known.form, more.form)
        if form != known.form:
            known = known.part(slice(0, self._rows)).widened(form)
        more = more.widened(form)
        values = _joined(known.values, self._rows, more.values, expected)
        if isinstance(known.lengths, int) and known.lengths == more.lengths:
            return SearchKeys(form, values, known.lengths)
        own = known.lengths_at(slice(None))
        return SearchKeys(form, values, _joined(own, self._rows, more.lengths_at(slice(None)), len(values)))


def _spread(alike: Int64s | None, counts: Int64s) -> Column:
    """The places of all rows of blocks whose entries are alike, each by itself."""
    assert alike is not None
    start, step, length = np.repeat(alike, counts, axis=0).T
    nth = np.arange(len(start)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack((start + step * nth, length), axis=1).astype(np.int32)


def _unlike(places: Column, block_of: Int64s, counts: Int64s) -> bool:
    """Whether any block has values at different distances or of different lengths, or none at all."""
    inside = block_of[1:] == block_of[:-1]
    steps, changes = np.diff(places, axis=0).T
    odd = bool((inside & (changes != 0)).any()) or bool((inside[1:] & inside[:-1] & (np.diff(steps) != 0)).any())
    return odd or not counts.all()


def _joined(column: Column, rows: int, more: Column, expected: int) -> Column:
    """The first ``rows`` of a column and more behind them; in place if there is room, else with room for so many."""
    stop, dtype = rows + len(more), np.promote_types(column.dtype, more.dtype)
    if stop > len(column) or dtype != column.dtype or not column.flags.writeable:
        larger = np.empty((max(stop, expected), *column.shape[1:]), dtype)
        larger[:rows] = column[:rows]
        column = larger
    column[rows:stop] = more
    return column
