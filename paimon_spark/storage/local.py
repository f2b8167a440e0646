"""LocalStorage: files of a POSIX file system.

A file is published as follows: write ``.{name}.{uuid}.tmp`` in the same directory, fsync it, ``link`` it to its
final name, unlink the temporary name, fsync the directory. ``link`` fails when the name exists, for all
processes and hosts that share the file system, and the linked file is complete. (Rename overwrites silently,
and exclusive creation shows an empty file first.) Temporary names start with a dot because other engines parse
every name that starts with ``snapshot-`` or ``schema-`` as a number.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import stat
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from paimon_spark.errors import CorruptFile, NotFound, NothingWritten, PaimonError, StorageError
from paimon_spark.storage.storage import FileInfo, Storage

MAX_LISTING = 1_000_000
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


@dataclass(frozen=True)
class LocalStorage(Storage):
    """Files below the root of this host's file system."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        with _typed_errors("read", path, NotFound), io.FileIO(path, "r") as file:
            size = os.fstat(file.fileno()).st_size
            if limit is not None and size > limit:
                raise CorruptFile(path, f"{size} bytes long, at most {limit} are expected")
            return file.readall()

    def open(self, path: str) -> pa.NativeFile:
        with _typed_errors("open", path, NotFound):
            return pa.OSFile(path, "r")

    def write(self, path: str, data: bytes) -> None:
        stream = self.create(path)
        try:
            with stream:
                stream.write(data)
        except BaseException:
            with contextlib.suppress(StorageError):
                self.delete(path)
            raise

    def create(self, path: str) -> BinaryIO:
        with _typed_errors("create", path):
            _make_directory(os.path.dirname(path))
            return cast(BinaryIO, _NewFile(path))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        directory, name = os.path.split(path)
        with _typed_errors("publish", path), contextlib.ExitStack() as stack:
            with _typed_errors("publish", path, failure=NothingWritten):
                _make_directory(directory)
                temporary = stack.enter_context(_temporary_file(directory, name, data))
            created = _link(temporary, path)
            if created:
                # The file is visible already, so a directory that cannot be synced does not undo the success.
                with contextlib.suppress(OSError):
                    _sync_directory(directory)
            return created

    def replace(self, path: str, data: bytes) -> None:
        directory, name = os.path.split(path)
        with _typed_errors("replace", path):
            _make_directory(directory)
            with _temporary_file(directory, name, data) as temporary:
                os.replace(temporary, path)

    def list(self, directory: str) -> list[FileInfo]:
        files: list[FileInfo] = []
        with _typed_errors("list", directory):
            try:
                entries = os.scandir(directory)
            except FileNotFoundError:
                return files
            with entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            files.append(FileInfo(entry.name, status.st_size, status.st_mtime_ns // 1_000_000))
                    if len(files) > MAX_LISTING:
                        raise StorageError(f"{directory} holds more than {MAX_LISTING} files; it is not listed")
        return files

    def directories(self, directory: str) -> builtins.list[str]:
        with _typed_errors("list", directory), contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            return [e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
        return []

    def size(self, path: str) -> int:
        with _typed_errors("look up", path, NotFound):
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(path)
            return status.st_size

    def delete(self, path: str) -> None:
        with _typed_errors("delete", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class _NewFile(io.BufferedWriter):
    """A new file that is durable once closed. Its errors are StorageErrors."""

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path, "x"), buffer_size=256 * 1024)
        self._path = path

    def write(self, data: object) -> int:
        with _typed_errors("write", self._path):
            return super().write(data)  # type: ignore[arg-type]

    def flush(self) -> None:
        with _typed_errors("write", self._path):
            super().flush()

    def close(self) -> None:
        if self.closed:
            return
        with _typed_errors("write", self._path):
            try:
                self.flush()
                os.fsync(self.fileno())
            finally:
                super().close()
            _sync_directory(os.path.dirname(self._path))


@contextlib.contextmanager
def _typed_errors(
    verb: str, path: str, missing: type[PaimonError] = StorageError, failure: type[PaimonError] = StorageError
) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if isinstance(problem, FileNotFoundError) and missing is NotFound:
            raise NotFound(f"{path} does not exist") from None
        raise failure(f"cannot {verb} {path}: {problem.strerror or problem}") from problem


@contextlib.contextmanager
def _temporary_file(directory: str, name: str, data: bytes) -> Iterator[str]:
    """A durable file with that content, which is gone afterwards unless it was renamed."""
    path = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
    try:
        with io.FileIO(path, "x") as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _link(temporary: str, path: str) -> bool:
    """Give ``temporary`` its final name; False when that name is another file's.

    An error of ``link`` proves nothing (a network file system may have linked before its answer was lost), so the
    answer is what the name refers to afterwards.
    """
    try:
        os.link(temporary, path)
    except OSError as problem:
        try:
            return os.path.samefile(temporary, path)
        except FileNotFoundError:
            pass
        if problem.errno in _NO_HARD_LINKS:
            raise StorageError(
                f"cannot publish {path}: its file system has no hard links ({problem.strerror}), so concurrent "
                "writers would overwrite each other; put the table on another file system"
            ) from problem
        if problem.errno in _NO_ROOM:
            raise NothingWritten(f"cannot publish {path}: {problem.strerror}") from problem
        raise
    return True


def _make_directory(directory: str) -> None:
    """Make a directory and those above it, durably."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    if parent != directory:
        _make_directory(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory)
        _sync_directory(parent)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
