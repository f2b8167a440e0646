"""MemoryBudget: the bytes that all open lookup files of a process may keep in memory."""

from __future__ import annotations

import threading


class MemoryBudget:
    """A bound and what is used of it, shared by the page cache and the block caches.

    ``lock`` guards the caches and the memory they hand out: whoever reads cached bytes holds it until they are copied.
    """

    def __init__(self, limit: int) -> None:
        """A budget of ``limit`` bytes."""
        self.limit = limit
        self.used = 0
        self.lock = threading.RLock()

    def excess(self, wanted: int) -> int:
        """How many bytes must be given back before ``wanted`` more fit."""
        return max(0, self.used + wanted - self.limit)
