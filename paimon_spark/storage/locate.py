"""Which storage a table path belongs to."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paimon_spark.errors import InvalidInput, InvalidOption, UnsupportedFeature
from paimon_spark.options import parse_bool
from paimon_spark.storage.credentials import UNSAFE, client_config
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import Storage

if TYPE_CHECKING:
    from paimon_spark.storage.hadoop import HadoopStorage
    from paimon_spark.storage.object_store import ObjectStorage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//[^/]*)?(.*)", re.DOTALL)
_KINDS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "azure", "abfss": "azure"}
_NAME_NODE = re.compile(r"([^@:]+@)?[^@:]+(:[0-9]+)?")
_AZURE = re.compile(r"([^@]+)@([^.@]+)\..+")


def locate(path: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """The storage of ``path``, and the path in that storage's own form: absolute, no trailing slash.

    Plain paths and ``file:`` URIs are local files; ``s3://``, ``s3a://``, ``gs://`` and ``abfss://`` URIs are objects;
    ``hdfs://`` URIs are files of HDFS, without host those of Hadoop's default file system.
    As in Hadoop, whose paths these are, ``%20`` in a URI is three characters of a name and not a space. ``options``
    give endpoints and credentials (see :mod:`paimon_spark.storage.credentials`); others are ignored.

    :raises InvalidInput: the path is empty, or has no bucket or no directory
    :raises InvalidOption: an option of the storage contradicts itself
    :raises UnsupportedFeature: another scheme, or a file URI of another host
    """
    local = path
    match = _SCHEME.fullmatch(path)
    if match is not None:
        scheme, authority, local = match[1].lower(), match[2] or "//", match[3]
        if scheme in _KINDS:
            return _object_storage(path, scheme, authority[2:], local, options)
        if scheme == "hdfs":
            return _hadoop_storage(path, authority[2:], local)
        if scheme != "file":
            raise UnsupportedFeature(
                f"path {path!r}: storage scheme {scheme!r} is not supported; local files, {', '.join(_KINDS)}, hdfs are"
            )
        if authority not in ("//", "//localhost"):
            raise UnsupportedFeature(f"path {path!r}: files of another host ({authority[2:]}) are not supported")
    if not local.strip():
        raise InvalidInput(f"path {path!r} names no file or directory")
    return LocalStorage(), os.path.abspath(local)


def mounted(home: Storage, directories: Iterable[str], options: Mapping[str, str]) -> Storage:
    """``home``, reaching into those of ``directories`` that it does not reach by itself; others are as they were.

    :raises InvalidOption: an option of a storage contradicts itself
    """
    mounts = []
    for directory in directories:
        # A directory that no storage here reaches is named as such when a file in it is asked for.
        with contextlib.suppress(InvalidInput, UnsupportedFeature):
            storage, path = locate(directory, options)
            if not _reaches(home, storage):
                mounts.append((path, storage))
    if not mounts:
        return home
    from paimon_spark.storage.mounted import MountedStorage

    return MountedStorage(home, tuple(mounts))


def _reaches(home: Storage, other: Storage) -> bool:
    """Whether ``home`` opens the files of ``other`` too: local ones, and objects in other buckets of its scheme."""
    if home == other:
        return True
    kinds = {getattr(storage, "kind", None) for storage in (home, other)}
    return kinds in ({"s3"}, {"gs"})


def _object_storage(
    path: str, scheme: str, authority: str, key: str, options: Mapping[str, str]
) -> tuple[ObjectStorage, str]:
    # Tables on local files do without the clients of object stores.
    from paimon_spark.storage.object_store import ObjectStorage

    kind = _KINDS[scheme]
    parts = _parts(key)
    if not authority or not parts:
        raise InvalidInput(f"path {path!r}: {scheme}://bucket/path/of/the/table is expected")
    container, account = authority, None
    if kind == "azure":
        names = _AZURE.fullmatch(authority)
        if names is None:
            raise InvalidInput(f"path {path!r}: {scheme}://container@account.dfs.core.windows.net/path is expected")
        container, account = names[1], names[2].lower()
    bucket = f"{scheme}://{authority}"
    storage = ObjectStorage(kind, bucket, container, client_config(kind, options, account), _unsafe(options))
    return storage, "/".join((bucket, *parts))


def _hadoop_storage(path: str, authority: str, directory: str) -> tuple[HadoopStorage, str]:
    # Other tables do without a JVM's doorway.
    from paimon_spark.storage.hadoop import HadoopStorage

    parts = _parts(directory)
    if not parts or (authority and _NAME_NODE.fullmatch(authority) is None):
        raise InvalidInput(f"path {path!r}: hdfs://[user@]host[:port]/path/of/the/table is expected")
    root = f"hdfs://{authority}"
    return HadoopStorage(root), "/".join((root, *parts))


def _parts(path: str) -> list[str]:
    """The names in a path; none where some of them lead elsewhere."""
    parts = [part for part in path.split("/") if part]
    return [] if {".", ".."} & set(parts) else parts


def _unsafe(options: Mapping[str, str]) -> bool:
    try:
        return parse_bool(options.get(UNSAFE, "false"))
    except ValueError as problem:
        raise InvalidOption(f"option {UNSAFE!r} = {options[UNSAFE]!r}: {problem}") from None
