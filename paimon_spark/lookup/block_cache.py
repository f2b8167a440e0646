"""Blocks of lookup files in memory: decoded objects under a key, least recently used ones evicted first.

Sort files keep the contents of their data blocks here, in the general pool. What every lookup needs is in a pool of
its own (the *high-priority* share), so that a scan over contents does not push it out: index and Bloom filter blocks of
both kinds of file, and the keys of data blocks. Where there is no room, a block takes the place of others only if it
was used before, and later than they were, so a scan of a file that does not fit leaves in memory what fits of it. A
block is decoded as a whole and then searched; contrast ``page_cache``, whose unit is an address.

Source: ``CacheManager`` of Apache Paimon.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

import numpy as np

from paimon_spark.lookup.memory_budget import MemoryBudget
from paimon_spark.lookup.page_cache import PASSING, PageCache
from paimon_spark.rows.byte_strings import Bytes, Int64s


class Block(Protocol):
    """Anything that knows its size in memory."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        ...


AnyBlock = TypeVar("AnyBlock", bound=Block)


class BlockCache:
    """Blocks by (owner, number)."""

    def __init__(self, budget: MemoryBudget) -> None:
        """A cache that lives within ``budget``."""
        self.budget = budget
        budget.reclaim.append(self._give_back)
        self.time = 0
        # Each with the time of its last use, in the order of those, and its size when it was last asked.
        self._blocks: OrderedDict[tuple[Hashable, int], tuple[Block, int, int]] = OrderedDict()

    def get(self, owner: Hashable, number: int, load: Callable[[], AnyBlock]) -> AnyBlock:
        """The block, from memory or loaded now. One block may exceed the bound; it is the next to go.

        Requires: ``load`` returns the same type for the same owner and number every time.
        """
        with self.budget.lock:
            self.tick()
            known = self._use(owner, number)
            if known is not None:
                return known  # type: ignore[return-value]
            block = load()
            self._give_back(self.budget.excess(block.nbytes))
            self._add(owner, number, block)
            return block

    def find(self, owner: Hashable, numbers: list[int]) -> tuple[list[Block | None], int]:
        """Those of the blocks that are in memory, and the time: all are used now."""
        with self.budget.lock:
            now = self.tick()
            return [self._use(owner, number) for number in numbers], now

    def tick(self) -> int:
        """Let time go on, and return it: what is used from now on was used later than all before."""
        with self.budget.lock:
            self.time += 1
            return self.time

    def may_take(self, size: int, last_uses: Int64s) -> Int64s:
        """Which of some blocks of about ``size`` bytes, used at those times before, :meth:`offer` may keep just now."""
        with self.budget.lock:
            if not self.budget.excess(size):
                return np.arange(len(last_uses))
            oldest = next(iter(self._blocks.values()), None)
            return np.flatnonzero(last_uses > (self.time if oldest is None else oldest[1]))

    def offer(self, owner: Hashable, number: int, size: int, last_use: int, make: Callable[[], Block]) -> None:
        """Keep the block that ``make`` makes, of about ``size`` bytes, if there is room for it or it was used before
        now (``last_use``; 0: never) and later than those that have to go for it."""
        with self.budget.lock:
            while self.budget.excess(size):
                oldest = next(iter(self._blocks), None)
                if oldest is None or self._blocks[oldest][1] >= last_use:
                    return
                self._drop(oldest)
            if (owner, number) in self._blocks:
                return
            block = make()
            if not self.budget.excess(block.nbytes):
                self._add(owner, number, block)

    def grow(
        self, owner: Hashable, number: int, block: Block, size: int, last_use: int, change: Callable[[], None]
    ) -> bool:
        """Let ``change`` make ``block`` larger by about ``size`` bytes, if it is in memory and there is room for that,
        or it was used before now (``last_use``) and later than those that have to go for it; whether it has changed."""
        key = (owner, number)
        with self.budget.lock:
            known = self._blocks.get(key)
            if known is None or known[0] is not block:
                return False
            while self.budget.excess(size):
                oldest = next(iter(self._blocks))
                if oldest == key or self._blocks[oldest][1] >= last_use:
                    return False
                self._drop(oldest)
            change()
            self._blocks[key] = (block, known[1], block.nbytes)
            self.budget.take(block.nbytes - known[2])
            if self.budget.excess(0):
                self._drop(key)
            return True

    def _use(self, owner: Hashable, number: int) -> Block | None:
        known = self._blocks.get((owner, number))
        if known is None:
            return None
        self._blocks[owner, number] = (known[0], self.time, known[2])
        self._blocks.move_to_end((owner, number))
        return known[0]

    def _add(self, owner: Hashable, number: int, block: Block) -> None:
        self._blocks[owner, number] = (block, self.time, block.nbytes)
        self.budget.take(block.nbytes)

    def drop(self, owner: Hashable) -> None:
        """Forget all blocks of one owner."""
        with self.budget.lock:
            for key in [key for key in self._blocks if key[0] == owner]:
                self._drop(key)

    def _give_back(self, size: int) -> None:
        """Forget the oldest blocks, ``size`` bytes in all or all that there are."""
        limit = self.budget.used - size
        while self._blocks and self.budget.used > limit:
            self._drop(next(iter(self._blocks)))

    def _drop(self, key: tuple[Hashable, int]) -> None:
        self.budget.give(self._blocks.pop(key)[2])


class LookupMemory:
    """All memory of lookup files: a general pool for pages and data blocks, and of it a high-priority share for index
    and Bloom filter blocks and for the keys of data blocks. What the share does not use yet, pages and blocks may."""

    def __init__(self, max_bytes: int, high_priority_ratio: float = 0.25) -> None:
        """Memory of ``max_bytes``, of which ``high_priority_ratio`` (0 … 1) is for index and filter blocks."""
        general = MemoryBudget(max_bytes)
        self.pages = PageCache(general)
        self.blocks = BlockCache(general)
        self.priority = BlockCache(MemoryBudget(int(max_bytes * high_priority_ratio), general))
        self._threads = threading.local()

    def passing(self, size: int) -> Bytes:
        """Memory for ``size`` bytes that pass through, beyond the bound: of each thread the same in every call, if it
        fits 8 MiB. Memory that is touched for the first time costs more than what is read into it."""
        if size > PASSING:
            return np.empty(size, np.uint8)
        if not hasattr(self._threads, "buffer"):
            self._threads.buffer = np.empty(PASSING, np.uint8)
        memory: Bytes = self._threads.buffer[:size]
        return memory
