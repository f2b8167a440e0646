"""Which storage a table path belongs to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.storage.local import LocalStorage
from paimon_spark.storage.storage import Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(//[^/]*)?(.*)", re.DOTALL)


def locate(path: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """The storage of ``path``, and the path in that storage's own form: absolute, no trailing slash.

    Plain paths and ``file:`` URIs are local files. As in Hadoop, whose paths these are, ``%20`` in a URI is three
    characters of a name and not a space. ``options`` configure storages that need endpoints or credentials; local
    files need none.

    :raises InvalidInput: the path is empty
    :raises UnsupportedFeature: another scheme, or a file URI of another host
    """
    local = path
    match = _SCHEME.fullmatch(path)
    if match is not None:
        scheme, authority, local = match[1].lower(), match[2] or "//", match[3]
        if scheme != "file":
            raise UnsupportedFeature(f"path {path!r}: storage scheme {scheme!r} is not supported, only local files are")
        if authority not in ("//", "//localhost"):
            raise UnsupportedFeature(f"path {path!r}: files of another host ({authority[2:]}) are not supported")
    if not local.strip():
        raise InvalidInput(f"path {path!r} names no file or directory")
    return LocalStorage(), os.path.abspath(local)
