"""StoreReader: what the readers of hash files and sort files have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

import pyarrow as pa

from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.sidecar import Sidecar
from paimon_spark.rows.byte_strings import ByteStrings


class StoreReader(ABC):
    """Answers lookups from one file. Safe to share between threads."""

    def __init__(self, path: str, memory: LookupMemory) -> None:
        """Open the file at ``path``.

        :raises NotFound: no such file
        :raises CorruptFile: it is a link, or not a file
        """
        self.path = path
        # Under what the caches know it; its id would be that of another one when it is gone without a close.
        self._owner = object()
        self._memory = memory
        self._file = LocalFile(path)
        self._files = [self._file]

    @property
    def size(self) -> int:
        """Bytes on disk of the file, and of its sidecar where that is read for lookups."""
        return sum(file.size for file in self._files)

    def is_deleted(self) -> bool:
        """Whether the file has lost its name; it still answers."""
        return self._file.is_deleted()

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None."""
        value: bytes | None = self.get_many([key])[0].as_py()
        return value

    @abstractmethod
    def get_many(self, keys: ByteStrings) -> pa.BinaryArray:
        """The value of each key, null where the file has no such key.

        :raises CorruptFile: what these keys need is damaged
        :raises InvalidInput: these are no byte strings, or their values have 2 GiB or more in all
        :raises StorageError: the disk fails, or the reader is closed
        """

    def suspend(self) -> None:
        """Close the file and keep what is in memory of it, until :meth:`resume`.

        Requires: nobody asks it meanwhile.
        """
        for file in self._files:
            file.close()

    def resume(self) -> bool:
        """Open the file again, if it is suspended; False, and it stays so, if it is not there any more as it was.

        :raises StorageError: it cannot be opened
        """
        there = False
        try:
            there = all(file.reopen() for file in self._files)
        finally:
            if not there:
                self.suspend()
        return there

    def close(self) -> None:
        """Close the file and give its memory back."""
        self._memory.priority.drop(self._owner)
        self.suspend()


def sidecar_beside(path: str, kind: str) -> Sidecar:
    """The sidecar of the lookup file at ``path``, which existed when it was opened.

    :raises NotFound: the file has been deleted meanwhile
    :raises CorruptFile: it is damaged, of another kind of file, or not there
    """
    try:
        return Sidecar.read(path, kind)
    except NotFound as problem:
        if not os.path.exists(path):
            raise
        raise CorruptFile(path, f"its context is missing: {problem}") from problem
