"""Places keys in the slots of an index section as if they came one by one, without taking them one by one.

Linear probing gives the first comer the slot. Java inserts in the order of ``put``, so the bytes of a file depend on
who came first, and a table built in any other order would answer alike but not be the same file.

The placement is a stable matching: a key prefers slots by their distance from its home, and every slot prefers the
key that came earliest. As all slots share one preference, exactly one matching is stable, the sequential one; and
deferred acceptance finds it in any order of proposals. So all unplaced keys propose at once, each slot keeps the
earliest of its holder and its proposers, and the others go on to their next slot:

    homes 5 5 6 (keys 0 1 2)    round 1: slot 5 keeps 0, refuses 1; slot 6 keeps 2
                                round 2: key 1 proposes to 6: earlier than 2, takes it, 2 is put out
                                round 3: key 2 proposes to 7

Rounds are as many as the longest way of a key (tens at a load of 3/4), and shrink fast. Equal keys walk together
until one of them is kept, and in that very round the other is refused by it: comparing a refused key with the slot's
holder finds every duplicate, and only holders of that round need be compared.

A table of millions of slots is larger than the processor's caches, so it is filled stretch by stretch. First the keys
become rows of the table and are dealt out to the stretch of their home, a piece of them at a time. Then the keys of
each stretch propose within it. Those that leave it, or are among the last few of it, take their rows along and propose
in the table as a whole when all stretches are filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.hash_slots import home_slots
from paimon_spark.rows.byte_strings import Bytes, Int32s, Int64s

Rows: TypeAlias = npt.NDArray[np.void]
"""What slots hold, each an item: a key and its offset, or zeros."""

_PIECE = 2**16
_STRETCH_BITS = 17
_MOST_STRETCHES_BITS = 8
_FEW = 128


@dataclass
class CollectedKeys:
    """The keys of one length in the order they came, with their hashes and the offsets of their values, in batches."""

    keys: list[Bytes] = field(default_factory=list)
    hashes: list[Int32s] = field(default_factory=list)
    offsets: list[Int64s] = field(default_factory=list)
    count: int = 0

    def add(self, keys: Bytes, hashes: Int32s, offsets: Int64s) -> None:
        """Add a batch."""
        self.keys.append(keys)
        self.hashes.append(hashes)
        self.offsets.append(offsets)
        self.count += len(keys)

    def take_out(self) -> Iterator[tuple[Bytes, Int32s, Int64s]]:
        """All of them in pieces that fit the processor's caches; batches are released on the way."""
        while self.keys:
            batches = rows = 0
            while batches < len(self.keys) and rows < _PIECE:
                rows += len(self.keys[batches])
                batches += 1
            keys, hashes = _taken_out(self.keys, batches), _taken_out(self.hashes, batches)
            offsets = _taken_out(self.offsets, batches)
            for at in range(0, rows, _PIECE):
                yield keys[at : at + _PIECE], hashes[at : at + _PIECE], offsets[at : at + _PIECE]


def _taken_out(batches: list[npt.NDArray[Any]], count: int) -> npt.NDArray[Any]:
    """The first ``count`` of these batches as one, and gone from the list."""
    joined = batches[0] if count == 1 else np.concatenate(batches[:count])
    del batches[:count]
    return joined


@dataclass(frozen=True)
class _Piece:
    """Some keys, those of each stretch together: the keys of stretch ``i`` lie from ``borders[i]`` on. The rank of a
    key is its number among all keys."""

    rows: Rows
    hashes: Int32s
    ranks: Int32s
    borders: list[int]


@dataclass(frozen=True)
class _Homeless:
    """Keys without a slot, and the slots that they ask for next."""

    rows: Rows
    ranks: Int32s
    asked: Int64s


def build_index(collected: CollectedKeys, slots: int, width: int) -> Bytes:
    """The slots of an index section, ``width`` bytes each. ``collected`` is empty then.

    Requires: a key; at least as many slots as keys, fewer than 2³¹; offsets that leave room for the keys.

    :raises InvalidInput: two keys are equal
    """
    key_length = collected.keys[0].shape[1]
    table = _Table(slots, width, key_length, collected.count)
    bits = max(_STRETCH_BITS, slots.bit_length() - _MOST_STRETCHES_BITS)
    stretches = (slots - 1 >> bits) + 1
    pieces = list(_dealt_out(collected, slots, width, bits, stretches))
    homeless = []
    for number in range(stretches):
        cuts = [(piece, slice(*piece.borders[number : number + 2])) for piece in pieces]
        hashes = np.concatenate([piece.hashes[cut] for piece, cut in cuts])
        rows = np.concatenate([*(piece.rows[cut] for piece, cut in cuts), table.no_row])
        ranks = np.concatenate([*(piece.ranks[cut] for piece, cut in cuts), table.no_rank])
        homeless += table.fill(number << bits, min(slots, number + 1 << bits), hashes, rows, ranks)
    table.house(homeless)
    return table.rows.view(np.uint8).reshape(slots, width)


def _dealt_out(collected: CollectedKeys, slots: int, width: int, bits: int, stretches: int) -> Iterator[_Piece]:
    """The keys as rows of the table, those with the same ``home >> bits`` together."""
    numbers = np.arange(stretches, dtype=np.uint8)
    first = 0
    for keys, hashes, offsets in collected.take_out():
        homes = (home_slots(hashes, slots) >> bits).astype(np.uint8)
        order = np.argsort(homes, kind="stable")
        borders = [0, *np.searchsorted(homes.take(order), numbers, side="right").tolist()]
        ranks = order.astype(np.int32)
        ranks += np.int32(first)
        yield _Piece(_rows(keys, offsets, width).take(order), hashes.take(order), ranks, borders)
        first += len(keys)


def _rows(keys: Bytes, offsets: Int64s, width: int) -> Rows:
    """What the slots of these keys hold."""
    count, key_length = keys.shape
    rows = np.empty((count, width), np.uint8)
    if key_length:
        # As items of that many bytes, which NumPy copies faster than rows of single ones.
        rows[:, :key_length].view(f"V{key_length}")[:] = keys.view(f"V{key_length}")
    rest = offsets.astype(np.uint32 if int(offsets[-1]) < 2**32 else np.uint64)
    for group in range(key_length, width):
        rows[:, group] = rest.astype(np.uint8) & 0x7F | (rest >= 0x80).view(np.uint8) << 7
        rest >>= 7
    items: Rows = rows.view(f"V{width}")[:, 0]
    return items


class _Table:
    """The slots, each with the rank of the key in it.

    ``no_row`` and ``no_rank`` are what empty slots hold: zeros, and the number of keys.
    """

    def __init__(self, slots: int, width: int, key_length: int, count: int) -> None:
        self.rows: Rows = np.empty(slots, f"V{width}")
        self.no_row: Rows = np.zeros(1, f"V{width}")
        self.no_rank = np.array([count], np.int32)
        self._ranks = np.empty(slots, np.int32)
        self._key_length = key_length

    def fill(self, start: int, stop: int, hashes: Int32s, rows: Rows, ranks: Int32s) -> list[_Homeless]:
        """Fill the slots from ``start`` to ``stop`` with keys whose homes they are; those that found none.

        Requires: keys by rank; behind their rows and ranks, ``no_row`` and ``no_rank``.

        :raises InvalidInput: two keys are equal
        """
        empty, size = len(hashes), stop - start
        holders = np.full(size, empty, np.int32)
        active, asked = np.arange(empty, dtype=np.int32), home_slots(hashes, len(self.rows)) - start
        # Of several values assigned to one place the last stays: backwards, that is the earliest key.
        holders[asked[::-1]] = active[::-1]
        now = holders.take(asked)
        left = np.flatnonzero(now != active)
        active, asked = active.take(left), asked.take(left)
        self._refuse_duplicates(hashes, rows, active, now.take(left))
        homeless = []
        while len(active):
            asked += 1
            leaving = asked >= size if len(active) * _FEW > empty else np.ones(len(active), np.bool_)
            if leaving.any():
                gone = active[leaving]
                homeless.append(_Homeless(rows.take(gone), ranks.take(gone), asked[leaving] + start))
                active, asked = active[~leaving], asked[~leaving]
            held = holders.take(asked)
            np.minimum.at(holders, asked, active)
            now = holders.take(asked)
            refused = now != active
            beaten = np.flatnonzero(refused & (now != held))
            self._refuse_duplicates(hashes, rows, active.take(beaten), now.take(beaten))
            left = np.flatnonzero(refused | (held < empty))
            active, asked = np.where(refused, active, held).take(left), asked.take(left)
        rows.take(holders, out=self.rows[start:stop], mode="clip")
        ranks.take(holders, out=self._ranks[start:stop], mode="clip")
        return homeless

    def house(self, homeless: list[_Homeless]) -> None:
        """Let keys that found no slot ask all over the table, until each has one.

        :raises InvalidInput: two keys are equal
        """
        if not homeless:
            return
        rows = np.concatenate([some.rows for some in homeless])
        ranks = np.concatenate([some.ranks for some in homeless])
        asked = np.concatenate([some.asked for some in homeless])
        while len(rows):
            asked[asked == len(self.rows)] = 0
            held = self._ranks.take(asked)
            np.minimum.at(self._ranks, asked, ranks)
            now = self._ranks.take(asked)
            refused = now != ranks
            again, kept = np.flatnonzero(refused), np.flatnonzero(~refused)
            out = np.flatnonzero(~refused & (held < self.no_rank))
            put_out = self.rows.take(asked.take(out))
            self.rows[asked.take(kept)] = rows.take(kept)
            beaten = np.flatnonzero(refused & (now != held))
            self._refuse_equal(rows.take(beaten), self.rows.take(asked.take(beaten)))
            rows = np.concatenate((rows.take(again), put_out))
            ranks = np.concatenate((ranks.take(again), held.take(out)))
            asked = np.concatenate((asked.take(again), asked.take(out))) + 1

    def _refuse_duplicates(self, hashes: Int32s, rows: Rows, refused: Int32s, holders: Int32s) -> None:
        alike = np.flatnonzero(hashes.take(refused) == hashes.take(holders))
        if len(alike):
            self._refuse_equal(rows.take(refused.take(alike)), rows.take(holders.take(alike)))

    def _refuse_equal(self, rows: Rows, others: Rows) -> None:
        keys, same = (each.view(np.uint8).reshape(-1, each.itemsize)[:, : self._key_length] for each in (rows, others))
        equal = np.flatnonzero((keys == same).all(axis=1))
        if len(equal):
            key = keys[equal[0]].tobytes()
            raise InvalidInput(f"a lookup file holds a key once, but {key[:64].hex()} was put twice")
