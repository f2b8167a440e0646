"""Places keys in the slots of a hash section as if they came one by one, without taking them one by one.

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
"""

from __future__ import annotations

import numpy as np

from paimon_spark.errors import InvalidInput
from paimon_spark.rows.byte_strings import Bytes, Int32s, Int64s


def slot_count(keys: int, load_factor: float) -> int:
    """How many slots a section of ``keys`` keys has (Java's Math.round: halves go up)."""
    return int(np.floor(keys / load_factor + 0.5))


def home_slots(hashes: Int32s, slots: int) -> Int64s:
    """The slot in which a key of each hash is looked for first."""
    positive = (hashes & np.int32(0x7FFFFFFF)).view(np.uint32)
    size = np.uint32(slots)
    homes: Int64s = (positive - positive // size * size).astype(np.int64)
    return homes


def place_keys(keys: Bytes, hashes: Int32s, slots: int) -> Int32s:
    """The row of ``keys`` that each slot holds; ``len(keys)`` where the slot is empty.

    Requires: at least as many slots as keys, fewer than 2³¹.

    :raises InvalidInput: two keys are equal
    """
    empty = len(keys)
    active, asked = np.arange(empty, dtype=np.int32), home_slots(hashes, slots)
    holders = np.full(slots, empty, np.int32)
    # Of several values assigned to one place the last stays: backwards, that is the earliest key.
    holders[asked[::-1]] = active[::-1]
    now = holders.take(asked)
    left = np.flatnonzero(now != active)
    active, asked = active.take(left), asked.take(left)
    _refuse_duplicates(keys, hashes, active, now.take(left))
    while len(active):
        asked += 1
        asked[asked == slots] = 0
        active, asked = _propose(keys, hashes, holders, active, asked)
    return holders


def _propose(keys: Bytes, hashes: Int32s, holders: Int32s, active: Int32s, asked: Int64s) -> tuple[Int32s, Int64s]:
    """One round: keys ``active`` ask for slots ``asked``; who is left over, and the slot that refused or lost it.
    ``holders`` is updated."""
    held = holders.take(asked)
    np.minimum.at(holders, asked, active)
    now = holders.take(asked)
    refused = now != active
    beaten = np.flatnonzero(refused & (now != held))
    _refuse_duplicates(keys, hashes, active.take(beaten), now.take(beaten))
    left = np.flatnonzero(refused | (held < len(keys)))
    return np.where(refused, active, held).take(left), asked.take(left)


def _refuse_duplicates(keys: Bytes, hashes: Int32s, refused: Int32s, holders: Int32s) -> None:
    alike = hashes.take(refused) == hashes.take(holders)
    if alike.any():
        same = (keys[refused[alike]] == keys[holders[alike]]).all(axis=1)
        if same.any():
            key = keys[refused[alike][np.flatnonzero(same)[0]]].tobytes()
            raise InvalidInput(f"a lookup file holds a key once, but {key[:64].hex()} was put twice")
