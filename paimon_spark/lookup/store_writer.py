"""StoreWriter: what the writers of hash files and sort files have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from paimon_spark.errors import InvalidInput, StorageError
from paimon_spark.lookup.local_file import NewFile
from paimon_spark.lookup.sidecar import Sidecar
from paimon_spark.rows.byte_strings import ByteStrings, as_binary

_BUFFERED_ROWS = 4096
_BUFFERED_BYTES = 2**24
_BATCH_BYTES = 2**29


class StoreContext(Protocol):
    """What a reader of the file must know."""

    def sidecar(self) -> Sidecar:
        """Its form beside the file."""
        ...


Context = TypeVar("Context", bound=StoreContext)


class StoreWriter(ABC, Generic[Context]):
    """Builds one lookup file. After ``InvalidInput`` from ``put`` or ``put_many`` call ``abort``; after
    ``StorageError`` the file is gone already. Of a writer that was closed or aborted ``abort`` does nothing, and all
    else is ``InvalidInput``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._waiting: list[tuple[bytes, bytes]] = []
        self._waiting_bytes = 0
        self._ended = False

    def put(self, key: bytes, value: bytes) -> None:
        """Add one pair; errors of :meth:`put_many` may surface at a later call.

        :raises InvalidInput: not bytes
        """
        self._refuse_if_ended()
        if not (isinstance(key, bytes) and isinstance(value, bytes)):
            raise InvalidInput(f"key and value must be bytes, not {type(key).__name__} and {type(value).__name__}")
        self._waiting.append((key, value))
        self._waiting_bytes += len(key) + len(value)
        if len(self._waiting) >= _BUFFERED_ROWS or self._waiting_bytes >= _BUFFERED_BYTES:
            self._flush()

    def put_many(self, keys: ByteStrings, values: ByteStrings) -> None:
        """Add pairs: Arrow binary arrays, or lists of bytes, of equal length.

        :raises InvalidInput: nulls, not as many keys as values, or, in a sort file, keys that do not ascend
        :raises StorageError: the disk is full or fails; nothing is left of the file then
        """
        self._flush()
        self._put(as_binary(keys, "keys"), as_binary(values, "values"))

    def close(self) -> Context:
        """Complete the file and its sidecar; the context. Nothing is left of them after an error.

        :raises InvalidInput: a key was put twice, or keys of a sort file do not ascend
        :raises StorageError: the disk is full or fails
        """
        self._refuse_if_ended()
        try:
            self._flush()
            context = self._finish()
            context.sidecar().write(self.path, self._attachment())
        except BaseException:
            self.abort()
            raise
        self._ended = True
        return context

    def abort(self) -> None:
        """Delete what was written."""
        if not self._ended:
            self._ended = True
            self._discard()

    @abstractmethod
    def _discard(self) -> None:
        """Delete what was written."""

    @abstractmethod
    def _add(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """Add as many keys as values: one at least, of ``_BATCH_BYTES`` at most if they are several."""

    @abstractmethod
    def _finish(self) -> Context:
        """Write what is left, and close the file."""

    def _attachment(self) -> NewFile | None:
        """The sidecar to be, where something is in it already."""
        return None

    def _flush(self) -> None:
        if self._waiting:
            keys, values = zip(*self._waiting, strict=True)
            self._waiting, self._waiting_bytes = [], 0
            self._put(as_binary(keys, "keys"), as_binary(values, "values"))

    def _refuse_if_ended(self) -> None:
        if self._ended:
            raise InvalidInput(f"the writer of lookup file {self.path} was closed or aborted; make another one")

    def _put(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        self._refuse_if_ended()
        if len(keys) != len(values):
            raise InvalidInput(f"{len(keys)} keys came with {len(values)} values")
        if keys.nbytes + values.nbytes > _BATCH_BYTES and len(keys) > 1:
            half = len(keys) // 2
            self._put(keys[:half], values[:half])
            self._put(keys[half:], values[half:])
        elif len(keys):
            try:
                self._add(keys, values)
            except StorageError:
                self.abort()
                raise
