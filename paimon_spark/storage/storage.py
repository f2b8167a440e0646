"""Storage: the few file operations that the table format needs.

The one that matters is :meth:`Storage.put_if_absent`: a snapshot or schema is published by it and by nothing
else, so of any number of racing writers exactly one wins an id. A store without such a primitive is refused.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa

from paimon_spark.errors import NotFound


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a directory: its name (no path), size in bytes, and time of last change in epoch milliseconds."""

    name: str
    size: int
    modified_millis: int


class Storage(Protocol):
    """Files by full path. Implementations are picklable and safe to use from several threads.

    Every method raises StorageError, naming the path, when the store fails, and NotFound where stated.
    """

    def read(self, path: str, limit: int | None = None) -> bytes:
        """The whole content of a small file.

        :raises NotFound: no such file
        :raises CorruptFile: the file is longer than ``limit`` bytes
        """
        ...

    def open(self, path: str) -> pa.NativeFile:
        """A file opened for random reads.

        :raises NotFound: no such file
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Make a new file, complete and durable on return, and the directories above it.

        Requires: no such file exists (names of data files and manifests are unique).
        """
        ...

    def create(self, path: str) -> BinaryIO:
        """A stream into a new file; the directories above it are made. ``close`` makes the file durable.

        Requires: no such file exists.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Make a file unless it exists. Nobody ever sees a part of it, and nobody's file is overwritten.

        :return: True when this call made the file, False when it existed
        :raises StorageError: neither could be established; the file may or may not have been made
        :raises NothingWritten: this call has not made the file
        """
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Make or overwrite a file; readers see the old or the new content, never a part."""
        ...

    def list(self, directory: str) -> list[FileInfo]:
        """The files directly in ``directory``, in no particular order; none when it does not exist."""
        ...

    def directories(self, directory: str) -> builtins.list[str]:
        """The names of the directories directly in ``directory``, in no particular order; none when it does not
        exist. Directories that begin with a dot are left out."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""
        try:
            return self.size(path) >= 0
        except NotFound:
            return False

    def size(self, path: str) -> int:
        """Size in bytes.

        :raises NotFound: no such file
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file. A missing one is fine."""
        ...
