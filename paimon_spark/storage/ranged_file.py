"""RangedFile: random reads of an object, each request fetching more than was asked for.

A request costs milliseconds whatever its size, and readers of columnar files ask for a footer and then, mostly
forward, for column after column. So the last TAIL bytes come with the opening request, and a read outside of what is
held fetches READ_AHEAD bytes, or as many as were asked for. Memory: the tail and one window.
"""

from __future__ import annotations

import io
from collections.abc import Callable

TAIL = 64 * 2**10
READ_AHEAD = 4 * 2**20

Fetch = Callable[[int, int], memoryview]
"""The bytes from a start (inclusive) to a stop (exclusive)."""


class RangedFile(io.RawIOBase):
    """An object of ``size`` bytes, of which ``tail`` is the end."""

    def __init__(self, fetch: Fetch, size: int, tail: memoryview) -> None:
        self._fetch = fetch
        self._size = size
        self._tail = tail
        self._window = memoryview(b"")
        self._start = 0
        self._position = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        """Read into a buffer; the number of bytes, 0 at the end."""
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._range(self._position, min(self._position + len(target), self._size))
        target[: len(data)] = data
        self._position += len(data)
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes (all that are left, when it is negative), fewer only at the end."""
        wanted = self._size if size is None or size < 0 else size
        data = self._range(self._position, min(self._position + wanted, self._size))
        self._position += len(data)
        return bytes(data)

    def readall(self) -> bytes:
        """All bytes that are left."""
        return self.read()

    def _range(self, start: int, stop: int) -> memoryview:
        if start >= stop:
            return memoryview(b"")
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : stop - tail_start]
        if not self._start <= start <= stop <= self._start + len(self._window):
            end = min(max(stop, start + READ_AHEAD), self._size)
            self._window, self._start = self._fetch(start, end), start
        return self._window[start - self._start : stop - self._start]
