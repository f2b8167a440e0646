"""Pages of files in memory: each file one address space, filled on demand.

A hash file is probed at single addresses all over the file, and a slot or a value may lie across a page border. So
every file gets an *address space*: anonymous memory of the file's uncompressed size that costs nothing until it is
touched. A page is read, checked and unpacked to its own address, once; evicting it returns the memory to the system
(``madvise``) and keeps the address. A probe of many slots is then plain NumPy indexing, whatever pages they lie on.

A sort file is different: its keys, and what can only be checked as a block, come in blocks that are decoded as a
whole. That is why blocks have their own cache (``block_cache``). Only values are read by pages (``value_pages``).

While there is room for more, a page is read with those around it, 16 KiB together: that costs twice as much as one page
of 4 KiB, and files that are asked again are in memory sooner.

Where there is no room, a page takes the place of others only if it was used before, and later than they were. Of the
pages that one request misses, a sixteenth may do so: where all pages are used alike there are always later ones, but to
exchange them gains nothing and costs more than to read them. Of a working set that has moved, half is in memory after
some eleven requests. Other pages are *passed through*: read in file order in pieces of 8 MiB beyond the bound, used,
and forgotten. So no page is read twice for one request, and a scan of a file that does not fit leaves in memory what
fits of it.

The first pages of a file may be *precious*: most requests need some of them, such as the slots of a hash file, and each
serves many keys. They count as used ``_HEAD_START`` requests later than they were, and no bound keeps them out.

Where many thousands of pages are old enough to go, those that do are the oldest of some picked at random, sixteen for
each and a thousand at least: to look through all of them for one page takes longer than to read it. Of many files,
only those are looked at that may have the oldest pages (``age_order``).

Source: ``CacheManager``, ``FileBasedRandomInputView`` of Apache Paimon; random candidates are how Redis evicts.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from paimon_spark.lookup.age_order import NEVER, AgeOrder
from paimon_spark.lookup.memory_budget import MemoryBudget
from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, rows_at

PASSING = 2**23
_NEIGHBOURHOOD = 2**14
_REPLACING = 16
_HEAD_START = 256
_PICKED, _LEAST_PICKED = 16, 1024
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
LoadPages = Callable[[Int64s, Bytes], Bytes]
Part: TypeAlias = "tuple[Bytes, Int64s, Int64s | slice]"


class PageCache:
    """The resident pages of all open files."""

    def __init__(self, budget: MemoryBudget) -> None:
        """A cache that lives within ``budget``."""
        self.budget = budget
        budget.reclaim.append(self._give_back)
        # Those that have resident pages.
        self.spaces: AgeOrder[AddressSpace] = AgeOrder()
        self.time = 0
        self._random = np.random.default_rng(0)
        self._buffer: Bytes = np.empty(0, np.uint8)

    def admit(self, size: int, last_uses: Int64s, precious: int) -> int:
        """How many of some missing pages of ``size`` bytes may become resident; the others that had to go for them are
        evicted. ``last_uses``: when each was used before now, the ``precious`` ones first, then the latest."""
        free = max(0, self.budget.limit - self.budget.used) // size
        if len(last_uses) <= free:
            return len(last_uses)
        last_uses = last_uses[: free + max(precious - free, 0) + -(-(len(last_uses) - precious) // _REPLACING)]
        old = self._oldest((len(last_uses) - free) * size)
        freed = old.freed + self.budget.limit - self.budget.used
        # The last of the old pages that must go for each; none is enough where that is behind the end.
        going = np.searchsorted(freed, (np.arange(free, len(last_uses)) + 1) * size)
        enough = going < len(freed)
        better = last_uses[free:][enough] > old.ages[going[enough]]
        more = len(better) if better.all() else int(better.argmin())
        if more:
            old.evict(int(going[more - 1]) + 1)
        return free + more

    def _give_back(self, size: int) -> None:
        """Evict the oldest pages, ``size`` bytes in all or all that are not in use."""
        old = self._oldest(size)
        old.evict(int(np.searchsorted(old.freed, size)) + 1)

    def _oldest(self, size: int) -> _OldPages:
        """Pages of ``size`` bytes in all that are not used now, or all that there are."""
        old, seen = _OldPages([], np.empty((4, 0), np.int64)), []
        while self.spaces.first() < old.last(size):
            bound, space = self.spaces.pop()
            frames = space.old_frames(self._random, -(-size // space.frame))
            if len(frames):
                ages = space.uses(frames)
                old = old.among(space, frames, ages, size)
                # Pages that are used now are no older than that.
                seen.append((space, min(int(ages.min()), self.time)))
            elif space.resident.any():
                seen.append((space, bound))
        for space, bound in seen:
            self.spaces.put(space, bound)
        return old

    def buffer(self, size: int) -> Bytes:
        """Memory for ``size`` bytes that pass through; the same in every call if it fits."""
        if size > PASSING:
            return np.empty(size, np.uint8)
        if not len(self._buffer):
            self._buffer = np.empty(PASSING, np.uint8)
        return self._buffer[:size]


@dataclass(frozen=True)
class _OldPages:
    """Pages that may go, the oldest first: ``pages`` is a matrix of when they were used, their frames, which of the
    ``spaces`` these are of, and their sizes."""

    spaces: list[AddressSpace]
    pages: Int64s

    @property
    def ages(self) -> Int64s:
        """When each counts as used."""
        ages: Int64s = self.pages[0]
        return ages

    @property
    def freed(self) -> Int64s:
        """How many bytes are free when all up to one have gone."""
        freed: Int64s = np.cumsum(self.pages[3])
        return freed

    def last(self, size: int) -> int:
        """When the last one counts as used, if these have ``size`` bytes; else no page is too new to go."""
        return int(self.pages[0, -1]) if int(self.pages[3].sum()) >= size else NEVER

    def among(self, space: AddressSpace, frames: Int64s, ages: Int64s, size: int) -> _OldPages:
        """The oldest of these and of some frames of another space, of ``size`` bytes in all."""
        some = _least(ages, -(-size // space.frame))
        pages = np.empty((4, len(some)), np.int64)
        pages[0], pages[1], pages[2], pages[3] = ages[some], frames[some], len(self.spaces), space.frame
        if self.spaces:
            pages = np.concatenate((self.pages, pages), axis=1)
            pages = pages[:, np.argsort(pages[0], kind="stable")]
            pages = pages[:, : int(np.searchsorted(np.cumsum(pages[3]), size)) + 1]
        return _OldPages([*self.spaces, space], pages)

    def evict(self, count: int) -> None:
        """Evict the oldest ``count``."""
        _, frames, owners, _ = self.pages[:, :count]
        for number in set(owners.tolist()):
            self.spaces[number].evict(np.sort(frames[owners == number]))


class AddressSpace:
    """The uncompressed bytes of one file, pages of it resident."""

    def __init__(self, cache: PageCache, length: int, page_size: int, load: LoadPages, precious: int = 0) -> None:
        """The space of a file of ``length`` bytes, of which the first ``precious`` ones are asked for more often than
        others. ``load(pages, room)`` gives the checked bytes of these pages, by ascending numbers, one after another;
        ``room`` is memory that it may put them in, valid until the next call."""
        self._cache = cache
        self.lock = cache.budget.lock
        self.length = length
        # Memory is returned in units of the system's page, so a frame is the smallest common multiple.
        self.frame = math.lcm(page_size, mmap.PAGESIZE)
        self._load = load
        self._pages = -(-length // page_size)
        self._pages_of_frame = np.arange(self.frame // page_size)
        frames = -(-length // self.frame)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        self._map = mmap.mmap(-1, max(1, frames) * self.frame, flags=flags)
        self._memory: Bytes = np.frombuffer(self._map, np.uint8)
        self.resident = np.zeros(frames, np.bool_)
        self.complete = not frames
        self.last_use = np.zeros(frames, np.int64)
        self._precious = precious // self.frame
        # As if used when the file is opened: used never, they would have to wait.
        self.last_use[: self._precious] = cache.time

    def close(self) -> None:
        """Give all memory back."""
        with self.lock:
            self.evict(np.flatnonzero(self.resident))
            self._cache.spaces.discard(self)

    def evict(self, frames: Int64s) -> None:
        """Give the memory of these frames, ascending, back."""
        for first, stop in _runs(frames):
            self._empty(first, stop)
        self.resident[frames] = False
        self.complete = self.complete and not len(frames)
        self._cache.budget.give(len(frames) * self.frame)

    def uses(self, frames: Int64s) -> Int64s:
        """When each of these frames counts as used."""
        when: Int64s = self.last_use[frames] + _HEAD_START * (frames < self._precious)
        return when

    def old_frames(self, random: np.random.Generator, count: int) -> Int64s:
        """Resident frames that are not used now: all, or enough to find ``count`` old ones among them."""
        picked = max(_LEAST_PICKED, _PICKED * count)
        if 4 * picked < len(self.resident):
            frames = np.unique(random.integers(0, len(self.resident), picked))
            return frames[self.resident[frames] & (self.last_use[frames] < self._cache.time)]
        return np.flatnonzero(self.resident & (self.last_use < self._cache.time))

    def whole(self) -> Bytes:
        """The whole file's memory, valid while the caller holds the lock."""
        if self.complete:
            self._cache.time += 1
            self.last_use[:] = self._cache.time
        return self._memory

    def rows(self, starts: Int64s, width: int) -> Bytes:
        """A matrix of the ``width`` bytes at each start.

        Requires: they lie within the file.
        """
        result = np.empty((len(starts), width), np.uint8)
        with self.lock:
            for memory, places, which in self.parts(starts, starts + width):
                if isinstance(which, slice):
                    return rows_at(memory, places, width)
                result[which] = rows_at(memory, places, width)
        return result

    def table_rows(self, start: int, count: int, width: int, numbers: Int64s) -> Bytes:
        """Of a table at ``start`` of ``count`` rows of ``width`` bytes, the rows of these ``numbers``."""
        with self.lock:
            frames = slice(start // self.frame, (start + count * width - 1) // self.frame + 1)
            if not self.resident[frames].all():
                return self.rows(start + numbers * width, width)
            self._cache.time += 1
            self.last_use[frames] = self._cache.time
            table = self._memory[start : start + count * width].view(f"V{width}")
            rows: Bytes = table.take(numbers, mode="clip").view(np.uint8).reshape(len(numbers), width)
            return rows

    def parts(self, starts: Int64s, stops: Int64s) -> Iterator[Part]:
        """Where these ranges are in memory: some memory, the places of starts in it, and which ranges these are.

        Each part is valid until the next one is asked for. Requires: the caller holds the budget's lock; the ranges
        lie within the file.
        """
        if self.complete or not len(starts):
            yield self.whole(), starts, slice(None)
            return
        first, last = starts // self.frame, np.maximum(stops - 1, starts) // self.frame
        if self._use_resident(first, last):
            yield self._memory, starts, slice(None)
            return
        wanted = self._frames(first, last)
        missing = self._make_resident(wanted)
        if not missing.any():
            yield self._memory, starts, slice(None)
            return
        outside = missing[first] | missing[last]
        if int((last - first).max()) > 1:
            before = np.concatenate((np.zeros(1, np.int64), np.cumsum(missing)))
            outside = before[last + 1] > before[first]
        inside = np.flatnonzero(~outside)
        if len(inside):
            yield self._memory, starts[inside], inside
        rows = np.flatnonzero(outside)
        rows = rows[np.argsort(first[rows], kind="stable")]
        for some in _windows(first[rows], last[rows], max(1, PASSING // self.frame)):
            which = rows[some]
            frames = np.flatnonzero(self._frames(first[which], last[which]))
            places = np.searchsorted(frames, first[which]) * self.frame + starts[which] % self.frame
            yield self._pass_through(frames), places, which

    def _empty(self, first: int, stop: int) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, first * self.frame, (stop - first) * self.frame)

    def _use_resident(self, first: Int64s, last: Int64s) -> bool:
        """Whether all these ranges lie in one or two frames that are resident; they are used now if so."""
        if int((last - first).max()) > 1 or not (self.resident.take(first).all() and self.resident.take(last).all()):
            return False
        self._cache.time += 1
        self.last_use[first] = self._cache.time
        self.last_use[last] = self._cache.time
        return True

    def _frames(self, first: Int64s, last: Int64s) -> Mask:
        """Which frames lie in a range from ``first`` to ``last``."""
        count = len(self.resident)
        if int((last - first).max()) > 1:
            changes = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)
            among: Mask = np.cumsum(changes[:count]) > 0
            return among
        wanted = np.zeros(count, np.bool_)
        wanted[first] = True
        wanted[last] = True
        return wanted

    def _make_resident(self, wanted: Mask) -> Mask:
        """Make those frames resident, as far as there is room; which of them are not."""
        missing = wanted & ~self.resident
        self._cache.time += 1
        frames = np.flatnonzero(missing)
        precious = int(np.searchsorted(frames, self._precious))
        later = frames[precious:]
        frames[precious:] = later[np.argsort(-self.last_use[later], kind="stable")]
        last_uses = self.uses(frames)
        self.last_use[np.flatnonzero(wanted)] = self._cache.time
        frames = self._with_neighbours(np.sort(frames[: self._cache.admit(self.frame, last_uses, precious)]))
        most = max(1, PASSING // self.frame)
        for at in range(0, len(frames), most):
            self._fill(frames[at : at + most])
        self.complete = bool(self.resident.all())
        missing[frames] = False
        return missing

    def _with_neighbours(self, frames: Int64s) -> Int64s:
        """These missing frames and, where there is room for all, the missing ones around them."""
        each, budget = _NEIGHBOURHOOD // self.frame, self._cache.budget
        if each < 2:
            return frames
        around = (np.unique(frames // each)[:, None] * each + np.arange(each)).ravel()
        around = around[around < len(self.resident)]
        around = around[~self.resident[around]]
        return frames if budget.excess(len(around) * self.frame) else around

    def _fill(self, frames: Int64s) -> None:
        """Read these frames, for which there is room, into their places."""
        loaded, at = self._pass_through(frames), 0
        self._cache.budget.take(len(frames) * self.frame)
        for first, stop in _runs(frames):
            begin, end = first * self.frame, min(stop * self.frame, self.length)
            self._memory[begin:end] = loaded[at : at + end - begin]
            at += end - begin
        self.resident[frames] = True
        self._cache.spaces.put(self, int(self.last_use[frames].min()))

    def _pass_through(self, frames: Int64s) -> Bytes:
        """The bytes of these frames, one after another."""
        pages = frames
        if len(self._pages_of_frame) > 1:
            pages = (frames[:, None] * len(self._pages_of_frame) + self._pages_of_frame).ravel()
            pages = pages[pages < self._pages]
        return self._load(pages, self._cache.buffer(len(frames) * self.frame))


def _least(numbers: Int64s, count: int) -> Int64s:
    """Where the least ``count`` numbers are, in their order."""
    some = np.arange(len(numbers)) if count >= len(numbers) else np.argpartition(numbers, count)[:count]
    return some[np.argsort(numbers[some], kind="stable")]


def _runs(numbers: Int64s) -> Iterator[tuple[int, int]]:
    """First and behind-the-last of each run of consecutive numbers, ascending."""
    if len(numbers):
        borders = np.flatnonzero(np.diff(numbers) != 1)
        firsts = np.concatenate((numbers[:1], numbers[borders + 1]))
        stops = np.concatenate((numbers[borders], numbers[-1:])) + 1
        yield from zip(firsts.tolist(), stops.tolist(), strict=True)


def _windows(first: Int64s, last: Int64s, most: int) -> Iterator[slice]:
    """Cut ranges of frames, in order of ``first``, into parts that need at most ``most`` frames or are one range."""
    # Frames counted in file order; those shared with the range before are counted once.
    reach = np.maximum.accumulate(last)
    before = np.concatenate((np.full(1, -1, np.int64), reach[:-1]))
    fresh = np.cumsum(np.maximum(reach - np.maximum(before, first - 1), 0))
    at = 0
    while at < len(first):
        counted = int(fresh[at - 1]) if at else 0
        # A window's first frame may be shared with the window before, which costs it one more.
        stop = max(at + 1, int(np.searchsorted(fresh, counted + most - (1 if at else 0), side="right")))
        yield slice(at, stop)
        at = stop
