"""Blocks of lookup files in memory: decoded objects under a key, least recently used ones evicted first.

Sort files keep their data blocks here, in the general pool; both kinds of file keep index and Bloom filter blocks in
a pool of their own (the *high-priority* share), so that a scan over data blocks does not push out what every lookup
needs. A block is decoded as a whole and then searched; contrast ``page_cache``, whose unit is an address.

Source: ``CacheManager`` of Apache Paimon.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from paimon_spark.lookup.memory_budget import MemoryBudget
from paimon_spark.lookup.page_cache import PageCache


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
        self._blocks: OrderedDict[tuple[Hashable, int], Block] = OrderedDict()

    def get(self, owner: Hashable, number: int, load: Callable[[], AnyBlock]) -> AnyBlock:
        """The block, from memory or loaded now. One block may exceed the bound; it is the next to go.

        Requires: ``load`` returns the same type for the same owner and number every time.
        """
        with self.budget.lock:
            known = self._blocks.get((owner, number))
            if known is not None:
                self._blocks.move_to_end((owner, number))
                return known  # type: ignore[return-value]
            block = load()
            while self._blocks and self.budget.excess(block.nbytes):
                self._drop(next(iter(self._blocks)))
            self._blocks[owner, number] = block
            self.budget.used += block.nbytes
            return block

    def drop(self, owner: Hashable) -> None:
        """Forget all blocks of one owner."""
        with self.budget.lock:
            for key in [key for key in self._blocks if key[0] == owner]:
                self._drop(key)

    def _drop(self, key: tuple[Hashable, int]) -> None:
        self.budget.used -= self._blocks.pop(key).nbytes


class LookupMemory:
    """All memory of lookup files: a general pool for pages and data blocks, and a high-priority share for index and
    Bloom filter blocks."""

    def __init__(self, max_bytes: int, high_priority_ratio: float = 0.25) -> None:
        """Memory of ``max_bytes``, of which ``high_priority_ratio`` (0 … 1) is for index and filter blocks."""
        reserved = int(max_bytes * high_priority_ratio)
        general = MemoryBudget(max_bytes - reserved)
        self.pages = PageCache(general)
        self.blocks = BlockCache(general)
        self.priority = BlockCache(MemoryBudget(reserved))
