"""Two NameNodes: one that keeps the contract over a directory of the local disk, and one that fails for another."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from paimon_spark.storage.libhdfs import NameNode, Status


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

    def status(self, path: str) -> Status | None:
        """What is at a path."""
        try:
            found = os.stat(f"{self.root}{path}")
        except FileNotFoundError:
            return None
        return Status(stat.S_ISREG(found.st_mode), found.st_size)

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
    """``faults`` are the answers of the next renames: "lost" renames and says that it did not, "declined" does not,
    and after "gone" nothing is answered any more."""

    inner: NameNode
    faults: list[str | None] = field(default_factory=list)
    is_silent: bool = False

    @property
    def files(self) -> Any:
        """The files."""
        return self.inner.files

    def status(self, path: str) -> Status | None:
        """What is at a path; OSError while nobody answers."""
        if self.is_silent:
            raise OSError("nobody answers")
        return self.inner.status(path)

    def rename(self, old: str, new: str) -> bool:
        """Rename, as the next fault wants it."""
        fault = self.faults.pop(0) if self.faults else None
        if fault == "declined":
            return False
        self.is_silent |= fault == "gone"
        return self.inner.rename(old, new) and fault not in ("lost", "gone")
