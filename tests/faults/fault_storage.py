"""FaultStorage: a storage whose Nth operation goes wrong, in a way that the test chooses.

Every primitive counts as one operation: a whole read, each range read of an open file, each chunk that a stream
writes, the stream's close, and all others. What can happen to the Nth one (:data:`FAULTS`):

==========  ==========================================================================================
before      it fails, and nothing of it was done
after       it fails, although all of it was done: the answer was lost
torn        it fails, and a write has left the first half of its bytes
short       a read ends too early, without an error
==========  ==========================================================================================

``lasting`` faults let every later operation fail too, until :meth:`FaultStorage.heal`.
"""

from __future__ import annotations

import io
from typing import BinaryIO, cast

import pyarrow as pa

from paimon_spark.errors import StorageError
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import FileInfo, Storage

BEFORE, AFTER, TORN, SHORT = "before", "after", "torn", "short"
FAULTS = (BEFORE, AFTER, TORN, SHORT)
Listing, Names = list[FileInfo], list[str]


class FaultStorage:
    """The files of ``inner``; operation number ``at`` (from 0) fails as ``fault`` says.

    ``log`` has (operation, path) of all operations so far; ``struck`` says whether one of them failed.
    """

    def __init__(self, at: int = -1, fault: str = BEFORE, lasting: bool = False, inner: Storage | None = None) -> None:
        self.at = at
        self.fault = fault
        self.lasting = lasting
        self.inner = inner or LocalStorage()
        self.log: list[tuple[str, str]] = []
        self.struck = False

    def heal(self) -> None:
        """No operation fails any more."""
        self.at, self.lasting = -1, False

    def strikes(self, operation: str, path: str) -> str | None:
        """Count an operation; the fault that it is to have, or None."""
        number = len(self.log)
        self.log.append((operation, path))
        hit = number == self.at or (self.lasting and 0 <= self.at < number)
        self.struck = self.struck or hit
        return (self.fault if number == self.at else BEFORE) if hit else None

    def _fail(self, operation: str, path: str) -> StorageError:
        return StorageError(f"injected fault: cannot {operation} {path}")

    def read(self, path: str, limit: int | None = None) -> bytes:
        fault = self.strikes("read", path)
        if fault in (BEFORE, AFTER, TORN):
            raise self._fail("read", path)
        data = self.inner.read(path, limit)
        return data[: len(data) // 2] if fault == SHORT else data

    def open(self, path: str) -> pa.NativeFile:
        if self.strikes("open", path) in (BEFORE, AFTER, TORN):
            raise self._fail("open", path)
        return pa.PythonFile(_Reader(self, path, self.inner.read(path)), mode="r")

    def write(self, path: str, data: bytes) -> None:
        fault = self.strikes("write", path)
        if fault == AFTER:
            self.inner.write(path, data)
        if fault == TORN:
            self.inner.write(path, data[: len(data) // 2])
        if fault in (BEFORE, AFTER, TORN):
            raise self._fail("write", path)
        self.inner.write(path, data)

    def create(self, path: str) -> BinaryIO:
        fault = self.strikes("create", path)
        if fault in (AFTER, TORN):
            self.inner.create(path).close()
        if fault in (BEFORE, AFTER, TORN):
            raise self._fail("create", path)
        stream = _Writer(self, path, self.inner.create(path))
        return cast(BinaryIO, _Buffered(stream, buffer_size=4096))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        fault = self.strikes("put_if_absent", path)
        if fault == AFTER:
            self.inner.put_if_absent(path, data)
        if fault in (BEFORE, AFTER, TORN):
            raise self._fail("publish", path)
        return self.inner.put_if_absent(path, data)

    def replace(self, path: str, data: bytes) -> None:
        fault = self.strikes("replace", path)
        if fault == AFTER:
            self.inner.replace(path, data)
        if fault in (BEFORE, AFTER, TORN):
            raise self._fail("replace", path)
        self.inner.replace(path, data)

    def list(self, directory: str) -> Listing:
        if self.strikes("list", directory) in (BEFORE, AFTER, TORN):
            raise self._fail("list", directory)
        return self.inner.list(directory)

    def directories(self, directory: str) -> Names:
        if self.strikes("list", directory) in (BEFORE, AFTER, TORN):
            raise self._fail("list", directory)
        return self.inner.directories(directory)

    def exists(self, path: str) -> bool:
        if self.strikes("exists", path) in (BEFORE, AFTER, TORN):
            raise self._fail("look up", path)
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        if self.strikes("size", path) in (BEFORE, AFTER, TORN):
            raise self._fail("look up", path)
        return self.inner.size(path)

    def delete(self, path: str) -> None:
        fault = self.strikes("delete", path)
        if fault == AFTER:
            self.inner.delete(path)
        if fault in (BEFORE, AFTER, TORN):
            raise self._fail("delete", path)
        self.inner.delete(path)


class _Reader(io.BytesIO):
    """An open file: each range that is read is an operation."""

    def __init__(self, storage: FaultStorage, path: str, data: bytes) -> None:
        super().__init__(data)
        self._storage = storage
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        fault = self._storage.strikes("read range of", self._path)
        if fault in (BEFORE, AFTER, TORN):
            raise StorageError(f"injected fault: cannot read {self._path}")
        data = super().read(size)
        return data[: len(data) // 2] if fault == SHORT else data


class _Buffered(io.BufferedWriter):
    """Knows how much was written, as the streams of real storages do."""

    def __init__(self, raw: io.RawIOBase, buffer_size: int) -> None:
        super().__init__(raw, buffer_size)
        self._size = 0

    def write(self, data: object) -> int:
        written = super().write(data)  # type: ignore[arg-type]
        self._size += written
        return written

    def tell(self) -> int:
        return self._size


class _Writer(io.RawIOBase):
    """A new file: each chunk is an operation, and so is the close."""

    def __init__(self, storage: FaultStorage, path: str, stream: BinaryIO) -> None:
        self._storage = storage
        self._path = path
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        buffer = bytes(data)  # type: ignore[call-overload]
        fault = self._storage.strikes("write to", self._path)
        if fault == AFTER:
            self._stream.write(buffer)
        if fault == TORN:
            self._stream.write(buffer[: len(buffer) // 2])
        if fault in (BEFORE, AFTER, TORN):
            raise StorageError(f"injected fault: cannot write {self._path}")
        return self._stream.write(buffer)

    def close(self) -> None:
        if self.closed:
            return
        fault = self._storage.strikes("close", self._path)
        super().close()
        self._stream.close()
        if fault in (BEFORE, AFTER, TORN):
            raise StorageError(f"injected fault: cannot write {self._path}")
