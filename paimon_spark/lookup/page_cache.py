"""Pages of hash files in memory: each file one address space, filled on demand.

A hash file is probed at single addresses all over the file, and a slot or a value may lie across a page border. So
every file gets an *address space*: anonymous memory of the file's uncompressed size that costs nothing until it is
touched. A page is read, checked and unpacked to its own address, once; evicting it returns the memory to the system
(``madvise``) and keeps the address. A probe of many slots is then plain NumPy indexing, whatever pages they lie on.

A sort file is different: its unit is a block that is decoded as a whole into columns, which are searched and never
addressed from outside. That is why blocks have their own cache (``block_cache``).

A batch that touches more pages than fit is answered in windows, each of which fits. Only a single string that is
greater than the whole bound exceeds it.

Source: ``CacheManager``, ``FileBasedRandomInputView`` of Apache Paimon.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.lookup.memory_budget import MemoryBudget
from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, read_varints, rows_at, strings_at

_SLACK = 16
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
LoadPages = Callable[[int, int], bytes]


class PageCache:
    """The resident pages of all open hash files, least recently used ones evicted first."""

    def __init__(self, budget: MemoryBudget) -> None:
        """A cache that lives within ``budget``."""
        self.budget = budget
        self.spaces: set[AddressSpace] = set()
        self.time = 0

    def make_room(self, wanted: int) -> None:
        """Evict pages that this moment does not use until ``wanted`` bytes fit, or none is left."""
        if not self.budget.excess(wanted):
            return
        spaces = list(self.spaces)
        frames = [np.flatnonzero(s.resident & (s.last_use < self.time)) for s in spaces]
        owner = np.repeat(np.arange(len(spaces)), [len(f) for f in frames])
        numbers = np.concatenate([np.empty(0, np.int64), *frames])
        ages = np.concatenate([np.empty(0, np.int64), *(s.last_use[f] for s, f in zip(spaces, frames, strict=True))])
        for i in np.argsort(ages, kind="stable").tolist():
            if not self.budget.excess(wanted):
                return
            spaces[owner[i]].evict(int(numbers[i]))


class AddressSpace:
    """The uncompressed bytes of one hash file, pages of it resident."""

    def __init__(self, cache: PageCache, length: int, page_size: int, load: LoadPages) -> None:
        """The space of a file of ``length`` bytes. ``load(start, stop)`` returns these bytes, checked; both are
        page borders (or the end)."""
        self._cache = cache
        self._length = length
        # Memory is returned in units of the system's page, so a frame is the smallest common multiple.
        self._frame = math.lcm(page_size, mmap.PAGESIZE)
        self._load = load
        frames = -(-length // self._frame)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        self._map = mmap.mmap(-1, max(1, frames) * self._frame + _SLACK, flags=flags)
        self._memory: Bytes = np.frombuffer(self._map, np.uint8)
        self.resident = np.zeros(frames, np.bool_)
        self.last_use = np.zeros(frames, np.int64)
        cache.spaces.add(self)

    def close(self) -> None:
        """Give all memory back."""
        with self._cache.budget.lock:
            for frame in np.flatnonzero(self.resident).tolist():
                self.evict(frame)
            self._cache.spaces.discard(self)

    def evict(self, frame: int) -> None:
        """Give the memory of one frame back."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, frame * self._frame, self._frame)
        self.resident[frame] = False
        self._cache.budget.used -= self._frame

    def rows(self, starts: Int64s, width: int) -> Bytes:
        """A matrix of the ``width`` bytes at each start.

        Requires: they lie within the file.
        """
        with self._cache.budget.lock:
            windows = list(self._windows(starts, starts + width))
            if len(windows) == 1:
                self._touch(starts, starts + width)
                return rows_at(self._memory, starts, width)
            result = np.empty((len(starts), width), np.uint8)
            for window in windows:
                self._touch(starts[window], starts[window] + width)
                result[window] = rows_at(self._memory, starts[window], width)
            return result

    def sizes(self, starts: Int64s) -> tuple[Int64s, Int64s]:
        """The variable-length number at each start and the position behind it; -1 where it does not end.

        Requires: the starts lie within the file.
        """
        numbers, ends = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        with self._cache.budget.lock:
            stops = np.minimum(starts + 5, self._length)
            for window in self._windows(starts, stops):
                self._touch(starts[window], stops[window])
                numbers[window], ends[window] = read_varints(self._memory, starts[window])
        return numbers, ends

    def strings(self, starts: Int64s, lengths: Int64s, present: Mask) -> pa.Array:
        """The strings at ``starts``; null where not ``present``.

        Requires: those present lie within the file.
        """
        with self._cache.budget.lock:
            asked = np.flatnonzero(present)
            stops = starts + lengths
            windows = list(self._windows(starts[asked], stops[asked]))
            if len(windows) == 1:
                self._touch(starts[asked], stops[asked])
                return strings_at(self._memory, starts, lengths, present)
            found, order = [pa.nulls(1, pa.binary())], np.zeros(len(starts), np.int64)
            filled = 1
            for window in windows:
                part = asked[window]
                self._touch(starts[part], stops[part])
                found.append(strings_at(self._memory, starts[part], lengths[part]))
                order[part] = filled + np.arange(len(part))
                filled += len(part)
            return pa.concat_arrays(found).take(to_arrow(order))

    def _windows(self, starts: Int64s, stops: Int64s) -> Iterator[Int64s | slice]:
        """Parts of the ranges that fit in memory at once: usually one, else in file order."""
        most = max(1, self._cache.budget.limit // self._frame)
        if len(self.resident) <= most or not len(starts):
            yield slice(None)
            return
        first, last = starts // self._frame, np.maximum(stops - 1, starts) // self._frame
        order = np.argsort(first, kind="stable")
        # Frames counted in file order; those shared with the range before are counted once.
        reach = np.maximum.accumulate(last[order])
        before = np.concatenate((np.full(1, -1, np.int64), reach[:-1]))
        fresh = np.cumsum(np.maximum(reach - np.maximum(before, first[order] - 1), 0))
        at = 0
        while at < len(order):
            counted = int(fresh[at - 1]) if at else 0
            # A window's first frame may be shared with the window before, which costs it one more.
            stop = max(at + 1, int(np.searchsorted(fresh, counted + most - (1 if at else 0), side="right")))
            yield order[at:stop]
            at = stop

    def _touch(self, starts: Int64s, stops: Int64s) -> None:
        if not len(starts):
            return
        cache = self._cache
        cache.time += 1
        first, last = starts // self._frame, np.maximum(stops - 1, starts) // self._frame
        self.last_use[first] = cache.time
        self.last_use[last] = cache.time
        for i in np.flatnonzero(last - first > 1).tolist():
            self.last_use[first[i] : last[i]] = cache.time
        missing = np.flatnonzero((self.last_use == cache.time) & ~self.resident).tolist()
        cache.make_room(len(missing) * self._frame)
        for frame in missing:
            start = frame * self._frame
            stop = min(start + self._frame, self._length)
            self._memory[start:stop] = np.frombuffer(self._load(start, stop), np.uint8)
            self.resident[frame] = True
            cache.budget.used += self._frame
