"""AgeOrder: things by a time that nothing in them is older than, for caches that look for the oldest among many.

Times only rise as things are used, so a time that was true stays a bound; whoever takes a thing out looks how old it is
now, and puts it back with that. So the oldest are found without a look at the others, however many there are.

Source: the heap with entries that are removed when they come up, of Python's documentation of ``heapq``.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

NEVER = sys.maxsize
"""Later than every time."""
_FEW = 64

T = TypeVar("T")


class AgeOrder(Generic[T]):
    """Things, each once. To put one in or take it out takes a time that grows with the logarithm of their number."""

    def __init__(self) -> None:
        """An empty order."""
        self._entries: dict[T, list[Any]] = {}
        # Entries are [bound, number, thing], of which the thing is None when it has left.
        self._heap: list[list[Any]] = []
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[T]:
        """All things, in no order, as they are now."""
        return iter(list(self._entries))

    def put(self, thing: T, bound: int) -> None:
        """Let nothing in ``thing`` be older than ``bound``, or than it was said to be before."""
        known = self._entries.get(thing)
        if known is None or bound < known[0]:
            self.discard(thing)
            self._entries[thing] = [bound, next(self._numbers), thing]
            heapq.heappush(self._heap, self._entries[thing])

    def discard(self, thing: T) -> None:
        """Take a thing out, if it is there."""
        entry = self._entries.pop(thing, None)
        if entry is not None:
            entry[2] = None
            if len(self._heap) > 2 * len(self._entries) + _FEW:
                self._heap = list(self._entries.values())
                heapq.heapify(self._heap)

    def first(self) -> int:
        """The least bound; ``NEVER`` if there are no things."""
        while self._heap and self._heap[0][2] is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def pop(self) -> tuple[int, T]:
        """Take the thing with the least bound out. Requires: there is one, and ``first`` was asked."""
        bound, _, thing = heapq.heappop(self._heap)
        del self._entries[thing]
        return bound, thing
