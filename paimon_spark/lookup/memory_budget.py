"""MemoryBudget: the bytes that all open lookup files of a process may keep in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MemoryBudget:
    """A bound and what is used of it, shared by caches.

    A budget *within* another is a share of it: what it uses is used of both, and until then others may have it. For
    what it takes they give back the oldest that they keep, by the functions in ``reclaim``, which get a number of
    bytes.

    ``lock`` guards the caches and the memory they hand out: whoever reads cached bytes holds it until they are copied.
    """

    def __init__(self, limit: int, within: MemoryBudget | None = None) -> None:
        """A budget of ``limit`` bytes."""
        self.limit = limit
        self.used = 0
        self.lock: threading.RLock = threading.RLock() if within is None else within.lock
        self.reclaim: list[Callable[[int], None]] = []
        self._within = within

    def excess(self, wanted: int) -> int:
        """How many bytes must be given back before ``wanted`` more fit."""
        return max(0, self.used + wanted - self.limit)

    def take(self, size: int) -> None:
        """Use ``size`` bytes; those for which there is no room exceed the bound."""
        if self._within is not None:
            for give_back in self._within.reclaim:
                if excess := self._within.excess(size):
                    give_back(excess)
            self._within.take(size)
        self.used += size

    def give(self, size: int) -> None:
        """Use ``size`` bytes less."""
        self.used -= size
        if self._within is not None:
            self._within.give(size)
