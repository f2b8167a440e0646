"""HadoopStorage: the files of one HDFS.

A file is published as follows: write ``.{name}.{uuid}.tmp`` in the same directory, close it, rename it to its final
name. The NameNode renames in one step and declines when the name exists, so of any number of writers one wins, and what
it made is complete. A rename without success is settled by looking: a temporary file that is gone has its new name.

``replace`` (hints only) deletes the old file before the new one gets its name, so for a moment there is none.
"""

from __future__ import annotations

import builtins
import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa

from paimon_spark.errors import CorruptFile, NotFound, PaimonError, StorageError
from paimon_spark.storage.forks import refuse_forks
from paimon_spark.storage.libhdfs import NameNode, Status, connect
from paimon_spark.storage.new_file import NewFile
from paimon_spark.storage.storage import FileInfo, Storage

MAX_LISTING = 1_000_000


@dataclass(frozen=True)
class HadoopStorage(Storage):
    """The files of ``hdfs://[user@]host[:port]``, of the nameservice ``host``, or of Hadoop's default file system when
    there is no host. ``root`` is that URI without trailing slash, and every full path begins with it."""

    root: str

    def read(self, path: str, limit: int | None = None) -> bytes:
        size = self.size(path)
        if limit is not None and size > limit:
            raise CorruptFile(path, f"{size} bytes long, at most {limit} are expected")
        with self.typed_errors("read", path, NotFound), self._files.open_input_file(self._inner(path)) as file:
            data: bytes = file.read()
        if len(data) != size:
            raise StorageError(f"cannot read {path}: {len(data)} of {size} bytes came")
        return data

    def open(self, path: str) -> pa.NativeFile:
        self.size(path)  # the library writes a stack trace to stderr when it opens what is not there
        with self.typed_errors("open", path, NotFound):
            return self._files.open_input_file(self._inner(path))

    def write(self, path: str, data: bytes) -> None:
        try:
            with self.create(path) as stream:
                stream.write(data)
        except BaseException:
            self._remove(path)
            raise

    def create(self, path: str) -> BinaryIO:
        with self.typed_errors("create", path):
            return cast(BinaryIO, NewFile(self, path, self._files.open_output_stream(self._inner(path))))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self._is_taken(path):
            return False
        with self._temporary_file(path, data) as temporary:
            with self.typed_errors("publish", path):
                if self._name_node.rename(self._inner(temporary), self._inner(path)):
                    return True
            if not self._is_taken(path):
                raise StorageError(f"cannot publish {path}: the NameNode did not rename {temporary}")
            if not self.exists(temporary):
                return self.read(path) == data
        self._remove(temporary)
        return False

    def _is_taken(self, path: str) -> bool:
        """Whether there is a file of that name; a directory, into which a rename would move, is an error."""
        found = self._status(path)
        if found is not None and not found.is_file:
            raise StorageError(f"cannot publish {path}: there is a directory of that name")
        return found is not None

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary_file(path, data) as temporary, self.typed_errors("replace", path):
            self._files.move(self._inner(temporary), self._inner(path))

    def list(self, directory: str) -> list[FileInfo]:
        found = [entry for entry in self._listed(directory) if entry.is_file]
        return [FileInfo(entry.base_name, entry.size, entry.mtime_ns // 1_000_000) for entry in found]

    def directories(self, directory: str) -> builtins.list[str]:
        names = [entry.base_name for entry in self._listed(directory) if not entry.is_file]
        return [name for name in names if not name.startswith(".")]

    def _listed(self, directory: str) -> builtins.list[Any]:
        from pyarrow.fs import FileSelector

        try:
            with self.typed_errors("list", directory, NotFound):
                entries = self._files.get_file_info(FileSelector(self._inner(directory)))
        except NotFound:
            return []
        if len(entries) > MAX_LISTING:
            raise StorageError(f"{directory} holds more than {MAX_LISTING} files; it is not listed")
        return cast("builtins.list[Any]", entries)

    def size(self, path: str) -> int:
        found = self._status(path)
        if found is None or not found.is_file:
            raise NotFound(f"{path} does not exist")
        return found.size

    def _status(self, path: str) -> Status | None:
        with self.typed_errors("look up", path):
            return self._name_node.status(self._inner(path))

    def delete(self, path: str) -> None:
        try:
            with self.typed_errors("delete", path):
                self._files.delete_file(self._inner(path))
        except PaimonError:
            if self.exists(path):
                raise

    @contextlib.contextmanager
    def _temporary_file(self, path: str, data: bytes) -> Iterator[str]:
        """A complete file with that content beside ``path``, which is gone after an error."""
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.{uuid.uuid4()}.tmp"
        try:
            self.write(temporary, data)
            yield temporary
        except BaseException:
            self._remove(temporary)
            raise

    def _remove(self, path: str) -> None:
        """Delete a file if that is possible."""
        with contextlib.suppress(PaimonError):
            self.delete(path)

    # ------------------------------------------------------------------ the client

    def _inner(self, path: str) -> str:
        if not path.startswith(self.root + "/") or ".." in path.split("/"):
            raise StorageError(f"{path} is not in {self.root}")
        return path[len(self.root) :]

    @property
    def _name_node(self) -> NameNode:
        refuse_forks("HDFS")
        user, _, host = self.root.removeprefix("hdfs://").rpartition("@")
        return connect(host, user or None)

    @property
    def _files(self) -> Any:
        return self._name_node.files

    @contextlib.contextmanager
    def typed_errors(self, verb: str, path: str, missing: type[PaimonError] = StorageError) -> Iterator[None]:
        """Errors of the client as errors of this package."""
        try:
            yield
        except PaimonError:
            raise
        except (OSError, pa.ArrowException) as problem:
            if isinstance(problem, FileNotFoundError) and missing is NotFound:
                raise NotFound(f"{path} does not exist") from None
            raise StorageError(f"cannot {verb} {path}: {problem}") from problem
