"""Two NameNodes: one that keeps the contract over a directory of the local disk, and one that fails for another."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from paimon_spark.storage.libhdfs import NameNode


class _Files:
    """A pyarrow file system below a directory that makes the directories of new files, as HDFS does."""

    def __init__(self, root: str) -> None:
        self._inner = SubTreeFileSystem(root, LocalFileSystem())

    def open_output_stream(self, path: str) -> Any:
        self._inner.create_dir(os.path.dirname(path))
        return self._inner.open_output_stream(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass
class LocalNameNode:
    """The files below ``root``."""

    root: Path

    @property
    def files(self) -> Any:
        """The files."""
        return _Files(str(self.root))

    def rename(self, old: str, new: str) -> bool:
        """Rename a file to a name that nobody has; into a directory of that name, as Hadoop does."""
        source, target = f"{self.root}{old}", f"{self.root}{new}"
        if os.path.isdir(target):
            target = os.path.join(target, os.path.basename(source))
        try:
            os.link(source, target)
        except FileExistsError:
            return False
        os.unlink(source)
        return True


@dataclass
class FaultyNameNode:
    """``faults`` are the answers of the next renames: "lost" renames and says that it did not, "declined" does not."""

    inner: NameNode
    faults: list[str | None] = field(default_factory=list)

    @property
    def files(self) -> Any:
        """The files."""
        return self.inner.files

    def rename(self, old: str, new: str) -> bool:
        """Rename, as the next fault wants it."""
        fault = self.faults.pop(0) if self.faults else None
        if fault == "declined":
            return False
        return self.inner.rename(old, new) and fault != "lost"
