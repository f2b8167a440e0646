"""The keys of a sort file's blocks in memory: ready for a search, and with the places of their values.

This is what a lookup needs of every block that it touches; of the values it needs those that were asked for. Where the
entries of a block are alike, keys of one length and values of one length, the places of the values follow from that of
the first, and a key takes no more memory than itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paimon_spark.lookup.key_search import OrderedKeys, SearchKeys, form_of, join_keys, search, search_keys
from paimon_spark.lookup.sort_layout import Entries
from paimon_spark.rows.byte_strings import Int64s, Mask

_UNLIKE = (-1, 0, 0)


@dataclass(frozen=True)
class BlockKeys:
    """The keys of one block, ascending, and where in its content their values are.

    ``alike`` is the start of the first value, how far each starts behind the one before, and the length of all; its
    start is negative where ``places``, a start and a length for each, must be asked.
    """

    keys: SearchKeys
    alike: tuple[int, int, int]
    places: Int64s

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.keys.nbytes + self.places.nbytes

    def copy(self) -> BlockKeys:
        """The same in memory of its own."""
        return BlockKeys(self.keys.copy(), self.alike, self.places.copy())


def keys_of_blocks(entries: Entries, ordered: OrderedKeys, begins: Int64s) -> list[BlockKeys]:
    """The keys of decoded blocks, in shared memory; ``ordered`` are all of them in their order's form, ``begins`` is
    where the blocks begin in their content."""
    keys = search_keys(ordered, form_of(ordered))
    counts = entries.counts
    block_of = np.repeat(np.arange(len(counts)), counts)
    places = np.stack((entries.value_starts - begins[block_of], entries.value_lengths.astype(np.int64)))
    unlike = _unlike(places, block_of, len(counts)).tolist()
    blocks = []
    ends = np.cumsum(counts)
    for first, stop, different in zip((ends - counts).tolist(), ends.tolist(), unlike, strict=True):
        own, alike = places[:, first:stop], _UNLIKE
        if not different:
            start, length = int(own[0, 0]), int(own[1, 0])
            alike = start, int(own[0, 1]) - start if stop - first > 1 else 0, length
        blocks.append(BlockKeys(keys.part(slice(first, stop)), alike, own if different else own[:, :0]))
    return blocks


def _unlike(places: Int64s, block_of: Int64s, blocks: int) -> Mask:
    """Which blocks have values at different distances or of different lengths, or none at all."""
    unlike: Mask = np.bincount(block_of, minlength=blocks) == 0
    inside = block_of[1:] == block_of[:-1]
    steps, changes = np.diff(places)
    unlike[block_of[1:][inside & (changes != 0)]] = True
    unlike[block_of[2:][inside[1:] & inside[:-1] & (np.diff(steps) != 0)]] = True
    return unlike


def find(blocks: list[BlockKeys], wanted: OrderedKeys) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Which of the wanted keys these blocks hold, ascending as a whole; and for each of them the number of its block
    among these, and start and length of its value in the content of that block."""
    stored = join_keys([block.keys for block in blocks])
    at, found = search(stored, search_keys(wanted, stored.form))
    hits = np.flatnonzero(found)
    at = at.take(hits)
    counts = np.array([len(block.keys.values) for block in blocks], np.int64)
    ends = np.cumsum(counts)
    which = np.searchsorted(ends, at, side="right")
    alike = np.array([block.alike for block in blocks], np.int64)
    if bool((alike[:, 0] >= 0).all()):
        first, step, length = alike.take(which, axis=0).T
        return hits, which, first + step * (at - (ends - counts).take(which)), length
    places = np.concatenate([_places(block) for block in blocks], axis=1)
    return hits, which, places[0].take(at), places[1].take(at)


def _places(block: BlockKeys) -> Int64s:
    first, step, length = block.alike
    if first < 0:
        return block.places
    count = len(block.keys.values)
    return np.stack((first + step * np.arange(count), np.full(count, length)))
