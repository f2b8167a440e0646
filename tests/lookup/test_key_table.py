"""Keys of blocks that come in any order, of any length, alike or not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.lookup.block_cache import BlockCache
from paimon_spark.lookup.key_table import BlockRows, KeyTable
from paimon_spark.lookup.memory_budget import MemoryBudget
from paimon_spark.lookup.sort_layout import Entries

BLOCKS = 40


def random_blocks(seed: int, longest: int, alike: bool) -> list[list[tuple[bytes, int, int]]]:
    """The entries of blocks: key, start and length of its value. Only some blocks have long keys, or differ."""
    rng = np.random.default_rng(seed)
    keys = {bytes(rng.integers(97, 100, rng.integers(1, 9), np.uint8)) for _ in range(900)}
    keys |= {bytes(rng.integers(97, 100, rng.integers(9, longest + 1), np.uint8)) for _ in range(20) if longest > 8}
    cuts = np.array_split(np.array(sorted(keys), object), BLOCKS)
    return [
        [
            (key, 7 * nth + (0 if alike else int(rng.integers(3)) * (number % 2)), 5)
            for nth, key in enumerate(cut.tolist())
        ]
        for number, cut in enumerate(cuts)
    ]


def add(table: KeyTable, numbers: list[int], blocks: list[list[tuple[bytes, int, int]]]) -> None:
    begins = np.arange(len(numbers)) * 1000
    rows = [
        (key, 1000 * nth + start, length) for nth, number in enumerate(numbers) for key, start, length in blocks[number]
    ]
    keys = pa.array([row[0] for row in rows], pa.binary())
    starts, lengths = (np.array([row[at] for row in rows], np.int32) for at in (1, 2))
    counts = np.array([len(blocks[n]) for n in numbers])
    entries = Entries(np.empty(0, np.uint8), keys, starts, lengths, counts)
    table.add(np.array(numbers), BlockRows.of_entries(entries, keys, begins))


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("longest", [8, 40, 400])
def test_a_key_is_found_in_its_block_and_in_no_other(longest: int, alike: bool) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        blocks, table = random_blocks(seed, longest, alike), KeyTable(BLOCKS)
        order, known = rng.permutation(BLOCKS).tolist(), list[int]()
        while order:
            some = sorted(order[: int(rng.integers(1, 9))])
            order = [number for number in order if number not in some]
            add(table, some, blocks)
            known += some
            assert table.nbytes >= 8 * sum(len(blocks[number]) for number in known)
            assert table.has(np.arange(BLOCKS)).tolist() == [number in known for number in range(BLOCKS)]
            entries = [(number, *entry) for number in known for entry in blocks[number]]
            asked = [entries[i] for i in rng.integers(0, len(entries), 300)]
            wanted = [(number, key) for number, key, _, _ in asked]
            wanted += [(known[0], key) for _, key, _, _ in asked[:50]] + [(known[-1], b""), (known[0], b"z" * 300)]
            hits, starts, lengths = table.find(
                np.array([number for number, _ in wanted]), pa.array([key for _, key in wanted], pa.binary())
            )
            places = {(number, key): (start, length) for number, key, start, length in entries}
            expected = {row: places[pair] for row, pair in enumerate(wanted) if pair in places}
            found = zip(hits.tolist(), starts.tolist(), lengths.tolist(), strict=True)
            assert {row: (start, length) for row, start, length in found} == expected


class Growing:
    """A block that is as large as it was told."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def become(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_a_block_grows_where_there_is_room_or_where_others_were_used_before_it() -> None:
    cache = BlockCache(MemoryBudget(100))
    old, new = (cache.get(owner, 0, lambda: Growing(10)) for owner in ("old", "new"))
    cache.grow("old", 0, old, 60, 0, lambda: old.become(70))
    assert cache.budget.used == 80
    # Nothing is taken from what was used later than the block before now.
    cache.grow("new", 0, new, 60, 0, lambda: new.become(70))
    assert (new.nbytes, cache.budget.used) == (10, 80)
    last_use = cache.time
    cache.get("new", 0, lambda: Growing(10))
    cache.grow("new", 0, new, 60, last_use, lambda: new.become(70))
    assert (new.nbytes, cache.budget.used) == (70, 70)
    # One that turns out larger than said goes.
    cache.grow("new", 0, new, 10, last_use, lambda: new.become(101))
    assert cache.budget.used == 0
    cache.grow("new", 0, new, 10, last_use, lambda: new.become(1))
    assert (new.nbytes, cache.budget.used) == (101, 0)
