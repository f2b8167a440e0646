"""MountedStorage: a table's storage, at some directories of which the files of others can be read.

A table may keep data files in another kind of storage than itself (``data-file.external-paths``). They are read there,
and never written, listed for clean-ups, or deleted.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from paimon_spark.storage.storage import FileInfo, Storage


@dataclass(frozen=True)
class MountedStorage:
    """``home``, and the storages of other directories by these: full paths without trailing slash."""

    home: Storage
    mounts: tuple[tuple[str, Storage], ...]

    def _holder(self, path: str) -> Storage:
        return next(
            (storage for directory, storage in self.mounts if f"{path}/".startswith(f"{directory}/")), self.home
        )

    def read(self, path: str, limit: int | None = None) -> bytes:
        return self._holder(path).read(path, limit)

    def open(self, path: str) -> pa.NativeFile:
        return self._holder(path).open(path)

    def list(self, directory: str) -> list[FileInfo]:
        return self._holder(directory).list(directory)

    def exists(self, path: str) -> bool:
        return self._holder(path).exists(path)

    def size(self, path: str) -> int:
        return self._holder(path).size(path)

    def directories(self, directory: str) -> builtins.list[str]:
        return self.home.directories(directory)

    def write(self, path: str, data: bytes) -> None:
        self.home.write(path, data)

    def create(self, path: str) -> BinaryIO:
        return self.home.create(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.home.put_if_absent(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self.home.replace(path, data)

    def delete(self, path: str) -> None:
        self.home.delete(path)
