"""Libhdfs: a NameNode as pyarrow's file system, and beside it two calls that pyarrow does not pass on as they are.

pyarrow's ``move`` deletes a target that exists and renames again, so two writers both "win" a name. The call below it,
``hdfsRename``, is the NameNode's own: it renames a file to a name that nobody has, or does nothing, in one step. And
pyarrow's ``get_file_info`` says that a file does not exist when the NameNode cannot be asked. So both are called
directly, in the library that pyarrow has loaded. What of its C interface is used::

    hdfsNewBuilder() -> builder             hdfsBuilderSetNameNode(builder, uri)
    hdfsBuilderConnect(builder) -> fs       hdfsBuilderSetUserName(builder, name)
    hdfsConfGetStr(key, &text) -> 0|-1      hdfsConfStrFree(text)
    hdfsRename(fs, from, to) -> 0|-1        hdfsGetPathInfo(fs, path) -> info, or NULL and an errno
                                            hdfsFreeFileInfo(info, 1)
"""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from paimon_spark.errors import StorageError

_NAMES = ("libhdfs.so", "libhdfs.dylib", "hdfs.dll")
_WHAT_TO_SET = (
    "HDFS is reached through Hadoop's C library and a JVM in this process: JAVA_HOME must name a Java runtime, "
    "HADOOP_HOME a Hadoop with lib/native/libhdfs.so (or ARROW_LIBHDFS_DIR the directory of that library), and "
    "CLASSPATH hold the output of `hadoop classpath --glob`; on executors too (spark.executorEnv.CLASSPATH=…)"
)


class Status(NamedTuple):
    """A file and its size in bytes, or a directory."""

    is_file: bool
    size: int


class NameNode(Protocol):
    """A connection to the file system that one NameNode keeps. Paths are absolute, without scheme and host."""

    @property
    def files(self) -> Any:
        """The files, as a ``pyarrow.fs.FileSystem``."""
        ...

    def status(self, path: str) -> Status | None:
        """What is at a path; None when the NameNode says that nothing is.

        :raises OSError: it did not say
        """
        ...

    def rename(self, old: str, new: str) -> bool:
        """Rename a file to a name that nothing has, in one step; False when that was declined or has failed.

        An answer that was lost is False too, so False does not prove that the file has its old name.
        A ``new`` that is a directory gets the file moved into it.
        """
        ...


class _FileInfo(ctypes.Structure):
    """The first members of ``hdfsFileInfo``: what it is (F or D), name, time of last change in seconds, size."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("changed", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


@dataclass(frozen=True)
class _Connection:
    files: Any
    library: Any
    handle: int

    def status(self, path: str) -> Status | None:
        info = self.library.hdfsGetPathInfo(self.handle, os.fsencode(path))
        if not info:
            number = ctypes.get_errno()
            if number == errno.ENOENT:
                return None
            raise OSError(number, "the NameNode did not answer, or refused to")
        found = Status(info.contents.kind == ord("F"), info.contents.size)
        self.library.hdfsFreeFileInfo(info, 1)
        return found

    def rename(self, old: str, new: str) -> bool:
        return int(self.library.hdfsRename(self.handle, os.fsencode(old), os.fsencode(new))) == 0


@lru_cache(maxsize=16)
def connect(host: str, user: str | None) -> NameNode:
    """The NameNode at ``host`` (``name:port``, or the name of a nameservice), or Hadoop's default one when empty.

    Made once a process. The Kerberos ticket is that of the process.

    :raises StorageError: the library, Java or Hadoop's classes are missing, or nobody answers
    """
    if not os.environ.get("CLASSPATH"):
        raise StorageError(f"cannot reach hdfs://{host}: CLASSPATH is not set. {_WHAT_TO_SET}")
    try:
        from pyarrow.fs import HadoopFileSystem

        uri = f"hdfs://{host}" if host else "default"
        files = HadoopFileSystem(uri, 0, user=user)
        library = _library()
    except (ImportError, OSError, pa.ArrowException) as problem:
        told = " ".join(str(problem).split())
        raise StorageError(f"cannot reach hdfs://{host}: {told}. {_WHAT_TO_SET}") from problem
    if not host:
        _check_default(library)
    return _Connection(files, library, _handle(library, uri, user))


def _library() -> Any:
    """The library that pyarrow has loaded, looked for where pyarrow looks for it.

    :raises OSError: it is not there
    """
    places = ["", "."]
    if "HADOOP_HOME" in os.environ:
        places.append(os.path.join(os.environ["HADOOP_HOME"], "lib", "native"))
    if "ARROW_LIBHDFS_DIR" in os.environ:
        places.append(os.environ["ARROW_LIBHDFS_DIR"])
    failures = []
    for path in (os.path.join(place, name) for place in places for name in _NAMES):
        try:
            return _declared(ctypes.CDLL(path, use_errno=True))
        except OSError as problem:
            failures.append(str(problem))
    raise OSError("; ".join(failures))


def _declared(library: Any) -> Any:
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in (
        ("hdfsNewBuilder", pointer),
        ("hdfsBuilderSetNameNode", None, pointer, text),
        ("hdfsBuilderSetUserName", None, pointer, text),
        ("hdfsBuilderConnect", pointer, pointer),
        ("hdfsConfGetStr", ctypes.c_int, text, ctypes.POINTER(pointer)),
        ("hdfsConfStrFree", None, pointer),
        ("hdfsRename", ctypes.c_int, pointer, text, text),
        ("hdfsGetPathInfo", ctypes.POINTER(_FileInfo), pointer, text),
        ("hdfsFreeFileInfo", None, ctypes.POINTER(_FileInfo), ctypes.c_int),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _check_default(library: Any) -> None:
    """Refuse a default file system that is not HDFS: without Hadoop's configuration it is the local disk."""
    value = ctypes.c_void_p()
    found = b""
    if library.hdfsConfGetStr(b"fs.defaultFS", ctypes.byref(value)) == 0 and value:
        found = ctypes.string_at(value)
        library.hdfsConfStrFree(value)
    if not found.startswith(b"hdfs://"):
        raise StorageError(
            f"hdfs:/// is Hadoop's default file system, but fs.defaultFS is {found.decode(errors='replace')!r}: "
            "name the NameNode, hdfs://host:port/…, or put the directory of core-site.xml first in CLASSPATH"
        )


def _handle(library: Any, uri: str, user: str | None) -> int:
    builder = library.hdfsNewBuilder()
    name, person = os.fsencode(uri), os.fsencode(user or "")
    library.hdfsBuilderSetNameNode(builder, name)
    if user:
        library.hdfsBuilderSetUserName(builder, person)
    handle = library.hdfsBuilderConnect(builder)
    if not handle:
        raise StorageError(f"cannot reach {uri}: {_WHAT_TO_SET}")
    return int(handle)
