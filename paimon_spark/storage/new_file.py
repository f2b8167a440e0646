"""NewFile: a stream into a file that a client of a store is making."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import Protocol


class Sink(Protocol):
    """What a client offers to write a file with."""

    def write(self, data: memoryview) -> object:
        """Append."""
        ...

    def close(self) -> object:
        """Complete the file."""
        ...


class Owner(Protocol):
    """The storage that a file belongs to."""

    def typed_errors(self, verb: str, path: str) -> AbstractContextManager[None]:
        """A context in which errors of the client become errors of this package."""
        ...


class NewFile(io.RawIOBase):
    """A new file, complete when it is closed. Nothing is held back here: buffers are the client's."""

    def __init__(self, owner: Owner, path: str, sink: Sink) -> None:
        self._owner = owner
        self._path = path
        self._sink = sink
        self._size = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._size

    def write(self, data: object) -> int:
        """Append all of ``data``."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        with self._owner.typed_errors("write", self._path):
            self._sink.write(view)
        self._size += len(view)
        return len(view)

    def close(self) -> None:
        """Make the file complete and durable."""
        if self.closed:
            return
        super().close()
        with self._owner.typed_errors("write", self._path):
            self._sink.close()
