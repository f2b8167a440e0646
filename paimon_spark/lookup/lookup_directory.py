"""LookupDirectory: the lookup files of a node, shared by its processes.

::

    <Spark's local directory>/paimon-lookup-<uid>/      0700, ours, no link
        <name>/data, <name>/data.context                a published file and its sidecar
        .build-<name>/                                  being built
        .drop-<random>/                                 being deleted
        .lock-00 … .lock-3f                             who may build: a name's lock is chosen by its hash

A name says all that a file's content depends on, so a published file is never changed, only dropped. It is built by
whoever holds the name's lock, in a directory of its own that is then renamed: that is the publication, and it is
atomic. The kernel releases the lock of a killed builder; what it leaves is a ``.build-`` directory, which nobody
reads and the next holder of the lock deletes. Dropping renames first, then deletes; a process that has the file open
keeps reading. So anybody may drop any published file at any time: whoever needs it again builds it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paimon_spark.checksum import crc32
from paimon_spark.errors import StorageError

LOG = logging.getLogger("paimon_spark.lookup")

SIZE, AGE, EXPLICIT, DAMAGED, CLOSED = "size", "age", "explicit", "damaged", "closed"
"""Why a lookup file leaves: there are too many bytes, nobody used it, its data file or its owner is gone, its bytes are
not what was written; the last leaves the file to the node's other processes."""

_DATA = "data"
_BUILD, _DROP, _LOCK = ".build-", ".drop-", ".lock-"
_LOCKS = 64


def local_directory() -> str:
    """Where Spark wants temporary files on this machine: the executor's local directory, else the system's."""
    configured = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    first = configured.split(",")[0].strip()
    return first if first and os.path.isdir(first) else tempfile.gettempdir()


@dataclass(frozen=True)
class PublishedFile:
    """A published lookup file: its bytes, sidecar included, and when it was last used (seconds since the epoch)."""

    name: str
    size: int
    used: float


class LookupDirectory:
    """Lookup files by name, each built once on this node."""

    def __init__(self, parent: str | None = None) -> None:
        """The node's directory inside ``parent`` (default: :func:`local_directory`), made if it does not exist.

        :raises StorageError: it cannot be made, is a link, belongs to another user, or is open to others
        """
        self.path = os.path.join(parent or local_directory(), f"paimon-lookup-{os.getuid()}")
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, 0o700)
            status = os.lstat(self.path)
        except OSError as problem:
            raise StorageError(f"cannot make the lookup directory {self.path}: {problem}") from problem
        self._refuse_unless_private(status)
        # Of the files that were there at the last listing, by name and inode.
        self._sizes: dict[tuple[str, int], int] = {}
        try:
            self._delete_leftovers()
        except OSError as problem:
            raise StorageError(f"cannot clean up the lookup directory {self.path}: {problem}") from problem

    def _refuse_unless_private(self, status: os.stat_result) -> None:
        private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
        if not private:
            raise StorageError(
                f"the lookup directory {self.path} must be a directory, not a link, that only this user can enter "
                "(0700); remove it or choose another local directory"
            )

    def obtain(self, name: str, build: Callable[[str], None]) -> str:
        """The path of the published file ``name``; ``build(path)`` makes file and sidecar if there is none yet.

        One process builds, the others wait for it. If building fails, its error is raised here and nothing is left.
        """
        path = os.path.join(self.path, name, _DATA)
        if self.touch(name):
            return path
        with self._lock(name):
            if self.touch(name):
                return path
            self._build(name, build)
        return path

    def drop(self, name: str) -> bool:
        """Delete a published file; whether there was one. One that cannot be deleted stays, and is said so in the log:
        the next process to need the room tries again."""
        trash = os.path.join(self.path, _DROP + uuid.uuid4().hex)
        try:
            os.rename(os.path.join(self.path, name), trash)
        except FileNotFoundError:
            return False
        except OSError as problem:
            LOG.warning("lookup file %s in %s cannot be dropped: %s", name, self.path, problem)
            return False
        shutil.rmtree(trash, ignore_errors=True)
        return True

    def names(self, prefix: str) -> list[str]:
        """The published files whose names begin so, by one listing of the directory; none when that fails.

        Requires: the prefix is not empty.
        """
        try:
            return [name for name in os.listdir(self.path) if name.startswith(prefix)]
        except OSError as problem:
            LOG.warning("the lookup directory %s cannot be listed: %s", self.path, problem)
            return []

    def files(self) -> list[PublishedFile]:
        """All published files, the one unused for longest first.

        :raises StorageError: the directory cannot be listed
        """
        found = []
        for entry, size in self._published():
            with contextlib.suppress(OSError):
                found.append(PublishedFile(entry.name, size, entry.stat(follow_symlinks=False).st_mtime))
        return sorted(found, key=lambda file: file.used)

    def size(self) -> int:
        """The bytes of all published files, for the price of their names.

        :raises StorageError: the directory cannot be listed
        """
        return sum(size for _, size in self._published())

    def _published(self) -> list[tuple[os.DirEntry[str], int]]:
        """Each published file and its bytes, sidecar included. They are measured once: a published file never changes,
        and one that is built anew under its name has the same content."""
        found, sizes = [], {}
        try:
            for entry in os.scandir(self.path):
                if entry.name.startswith("."):
                    continue
                key = entry.name, entry.inode()
                with contextlib.suppress(OSError):
                    size = self._sizes.get(key)
                    if size is None:
                        size = sum(part.stat(follow_symlinks=False).st_size for part in os.scandir(entry.path))
                        # Fails if it was dropped meanwhile, and parts of it may have been gone.
                        entry.stat(follow_symlinks=False)
                    sizes[key] = size
                    found.append((entry, size))
        except OSError as problem:
            raise StorageError(f"cannot list the lookup directory {self.path}: {problem}") from problem
        self._sizes = sizes
        return found

    def excess(self, max_bytes: int | None, unused_seconds: float, spare: str | None = None) -> dict[str, str]:
        """The files to drop, and why: those that no process has used for ``unused_seconds``, and the least recently
        used ones until the rest take no more than ``max_bytes``; never ``spare``."""
        files = self.files()
        total = sum(file.size for file in files)
        oldest = time.time() - unused_seconds
        leaving = {}
        for file in files:
            too_large = max_bytes is not None and total > max_bytes
            if file.name != spare and (file.used < oldest or too_large):
                leaving[file.name] = AGE if file.used < oldest else SIZE
                total -= file.size
        return leaving

    def touch(self, name: str) -> bool:
        """Note that a published file is used; whether it exists.

        :raises StorageError: the local disk fails
        """
        try:
            os.utime(os.path.join(self.path, name), follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as problem:
            raise StorageError(f"cannot use the lookup file {name} in {self.path}: {problem}") from problem
        return True

    def _build(self, name: str, build: Callable[[str], None]) -> None:
        scratch = os.path.join(self.path, _BUILD + name)
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            os.mkdir(scratch, 0o700)
            build(os.path.join(scratch, _DATA))
            os.rename(scratch, os.path.join(self.path, name))
        except OSError as problem:
            raise StorageError(f"cannot make the lookup file {name} in {self.path}: {problem}") from problem
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        path = os.path.join(self.path, f"{_LOCK}{crc32(name.encode()) % _LOCKS:02x}")
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as problem:
            raise StorageError(f"cannot open the lock of a lookup file, {path}: {problem}") from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _delete_leftovers(self) -> None:
        """Delete what killed processes left behind."""
        for entry in os.listdir(self.path):
            if entry.startswith(_DROP):
                shutil.rmtree(os.path.join(self.path, entry), ignore_errors=True)
            elif entry.startswith(_BUILD):
                self._delete_unless_building(entry.removeprefix(_BUILD))

    def _delete_unless_building(self, name: str) -> None:
        lock = os.path.join(self.path, f"{_LOCK}{crc32(name.encode()) % _LOCKS:02x}")
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(os.path.join(self.path, _BUILD + name), ignore_errors=True)
            finally:
                os.close(descriptor)
