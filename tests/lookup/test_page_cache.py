"""Pages of a file that is larger than the memory for it."""

from __future__ import annotations

import mmap
from itertools import pairwise

import numpy as np
import pytest

from paimon_spark.lookup.memory_budget import MemoryBudget
from paimon_spark.lookup.page_cache import AddressSpace, PageCache
from paimon_spark.rows.byte_strings import Bytes, Int64s, rows_at

PAGE = mmap.PAGESIZE
CONTENT = np.random.default_rng(3).integers(0, 256, 3000 * PAGE + 100, np.uint8)


class CountedFile:
    """A file in memory that counts how often each of its pages is read."""

    def __init__(self) -> None:
        self.reads = np.zeros(len(CONTENT) // PAGE + 1, np.int64)

    def load(self, pages: Int64s, room: Bytes) -> Bytes:
        self.reads[pages] += 1
        content = CONTENT[(pages[:, None] * PAGE + np.arange(PAGE)).ravel().clip(max=len(CONTENT) - 1)]
        room[: len(content)] = content
        return room[: len(content)]

    def taken_reads(self) -> Int64s:
        """The counts since the last call."""
        reads, self.reads = self.reads, np.zeros_like(self.reads)
        return reads


def random_starts(seed: int, width: int) -> Int64s:
    return np.random.default_rng(seed).integers(0, len(CONTENT) - width, 6000)


@pytest.mark.parametrize("width", [1, 500, 3 * PAGE])
@pytest.mark.parametrize("pages", [0, 10, 1500])
def test_a_batch_reads_each_page_once(pages: int, width: int) -> None:
    """Save those that two pieces of 8 MiB share, when pages pass through."""
    file = CountedFile()
    cache = PageCache(MemoryBudget(pages * PAGE))
    space = AddressSpace(cache, len(CONTENT), PAGE, file.load)
    for seed in range(3):
        starts = random_starts(seed, width)
        assert np.array_equal(space.rows(starts, width), rows_at(CONTENT, starts, width))
        reads = file.taken_reads()
        assert reads.max() <= 2
        assert np.count_nonzero(reads == 2) <= 12
        assert cache.budget.used <= pages * PAGE
    space.close()
    assert cache.budget.used == 0


def test_a_scan_of_the_file_leaves_what_fits_of_it() -> None:
    file = CountedFile()
    cache = PageCache(MemoryBudget(1000 * PAGE))
    space = AddressSpace(cache, len(CONTENT), PAGE, file.load)
    for turn in range(4):
        for start in range(0, len(CONTENT), 50 * PAGE):
            space.rows(np.arange(start, min(start + 50 * PAGE, len(CONTENT)), PAGE), 1)
        assert np.count_nonzero(file.taken_reads()) == (2001 if turn else 3001)
    space.close()


def test_a_working_set_that_moved_becomes_resident_bit_by_bit() -> None:
    first, second = CountedFile(), CountedFile()
    cache = PageCache(MemoryBudget(1000 * PAGE))
    spaces = [AddressSpace(cache, len(CONTENT), PAGE, file.load) for file in (first, second)]
    some = np.arange(0, 1000 * PAGE, PAGE)
    for space in (spaces[0], spaces[0], spaces[1]):
        space.rows(some, 1)
    assert np.count_nonzero(first.taken_reads()) == np.count_nonzero(second.taken_reads()) == 1000
    missed = []
    while not missed or missed[-1]:
        spaces[1].rows(some, 1)
        missed.append(np.count_nonzero(second.taken_reads()))
        assert cache.budget.used <= 1000 * PAGE
    assert missed[0] == 1000
    assert all(0 < before - after <= before / 16 + 1 for before, after in pairwise(missed))
    assert missed[11] < 500
    for space in spaces:
        space.close()


def test_pages_that_are_used_one_by_one_change_places_at_once() -> None:
    file = CountedFile()
    cache = PageCache(MemoryBudget(10 * PAGE))
    space = AddressSpace(cache, len(CONTENT), PAGE, file.load)
    for _ in range(2):
        for page in range(100):
            space.rows(np.array([page * PAGE]), 1)
    assert cache.budget.used == 10 * PAGE
    file.taken_reads()
    for page in (50, 50, 50):
        space.rows(np.array([page * PAGE]), 1)
    assert file.taken_reads()[50] == 1
    space.close()


def test_precious_pages_stay_though_others_are_used_later() -> None:
    file = CountedFile()
    cache = PageCache(MemoryBudget(100 * PAGE))
    space = AddressSpace(cache, len(CONTENT), PAGE, file.load, 50 * PAGE)
    others = np.arange(1000 * PAGE, 1500 * PAGE, PAGE)
    for _ in range(2):
        space.rows(others, 1)
    assert cache.budget.used == 100 * PAGE
    space.rows(np.arange(0, 50 * PAGE, PAGE), 1)
    for _ in range(5):
        space.rows(others, 1)
    file.taken_reads()
    space.rows(np.arange(0, 50 * PAGE, PAGE), 1)
    assert not file.taken_reads().any()
    space.close()


def test_the_oldest_of_many_pages_go_by_and_large() -> None:
    size = 40_000
    cache = PageCache(MemoryBudget(size // 2 * PAGE))
    content = np.zeros(PAGE, np.uint8)
    space = AddressSpace(cache, size * PAGE, PAGE, lambda pages, room: np.tile(content, len(pages)))
    for start in range(0, size // 2, 1000):
        space.rows(np.arange(start, start + 1000) * PAGE, 1)
    new = np.arange(size // 2, size // 2 + 1600) * PAGE
    for _ in range(2):
        space.rows(new, 1)
    gone = np.flatnonzero(~space.resident[: size // 2])
    assert len(gone) == 100
    assert gone.max() < 4000
    space.close()


def test_what_a_share_takes_is_given_back_by_the_oldest_pages() -> None:
    file = CountedFile()
    budget = MemoryBudget(100 * PAGE)
    space = AddressSpace(PageCache(budget), len(CONTENT), PAGE, file.load)
    share = MemoryBudget(30 * PAGE, budget)
    for page in range(100):
        space.rows(np.array([page * PAGE]), 1)
    share.take(30 * PAGE)
    assert budget.used == 100 * PAGE
    assert np.flatnonzero(space.resident).tolist() == list(range(30, 100))
    share.give(30 * PAGE)
    assert budget.used == 70 * PAGE
    space.close()
    assert budget.used == 0


def test_neighbours_come_along_while_there_is_room() -> None:
    file = CountedFile()
    cache = PageCache(MemoryBudget(10 * PAGE))
    space = AddressSpace(cache, len(CONTENT), PAGE, file.load)
    around = 2**14 // PAGE
    for page in (1, 5 * around):
        space.rows(np.array([page * PAGE]), 1)
    assert np.flatnonzero(file.taken_reads()).tolist() == [*range(around), *range(5 * around, 6 * around)]
    space.rows(np.array([len(CONTENT) - 1]), 1)
    assert np.flatnonzero(file.taken_reads()).tolist() == [len(CONTENT) // PAGE]
    space.rows(np.array([9 * around * PAGE]), 1)
    assert np.flatnonzero(file.taken_reads()).tolist() == [9 * around]
    assert cache.budget.used == 10 * PAGE
    space.close()


def small_files(cache: PageCache, count: int) -> list[AddressSpace]:
    """Files of eight pages, of which the first is precious."""
    return [AddressSpace(cache, 8 * PAGE, PAGE, CountedFile().load, PAGE) for _ in range(count)]


def test_of_many_files_the_oldest_pages_go() -> None:
    """Among files that come and go, with neighbours that come along where one has gone."""
    rng = np.random.default_rng(5)
    cache = PageCache(MemoryBudget(100 * PAGE))
    files, gone = small_files(cache, 60), 0
    for turn in range(3000):
        if turn % 50 == 0:
            files.pop(0).close()
            files += small_files(cache, 1)
        before = {(file, frame): file.uses(np.array([frame]))[0] for file in files for frame in resident(file)}
        asked = files[min(int(rng.exponential(10)), len(files) - 1)]
        asked.rows(rng.integers(0, 8, 3) * PAGE, 1)
        assert cache.budget.used == sum(len(resident(file)) for file in files) * PAGE <= 100 * PAGE
        left = [use for (file, frame), use in before.items() if not file.resident[frame]]
        kept = [
            use for (file, frame), use in before.items() if file.resident[frame] and file.last_use[frame] < cache.time
        ]
        assert not left or max(left) <= min(kept)
        gone += len(left)
    assert gone > 500


def resident(file: AddressSpace) -> list[int]:
    frames: list[int] = np.flatnonzero(file.resident).tolist()
    return frames


@pytest.mark.parametrize("count", [50, 500])
def test_however_many_files_are_open_few_are_looked_at_for_a_page(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = [0], AddressSpace.old_frames

    def counted(space: AddressSpace, random: np.random.Generator, wanted: int) -> Int64s:
        looks[0] += 1
        return look(space, random, wanted)

    monkeypatch.setattr(AddressSpace, "old_frames", counted)
    cache = PageCache(MemoryBudget(2 * count * PAGE))
    files = small_files(cache, count)
    for turn in range(4):
        for file in files:
            file.rows(np.arange(turn, 8) * PAGE, 1)
    assert cache.budget.used == 2 * count * PAGE
    assert count < looks[0] < 4 * 4 * count
