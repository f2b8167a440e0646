"""External paths: files of a table outside of its directory, where its option ``data-file.external-paths`` allows it.

Manifests name such a file by a full path or URI. It must lie below the table's directory or one of the declared ones,
part by part; scheme and bucket count, ``s3:``, ``s3a:`` and ``s3n:`` are one scheme. And it must be in a storage of the
table's own kind, because credentials are known for that one only; another bucket of it is fine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.metadata.file_name import is_plain_name
from paimon_spark.options import EXTERNAL_PATHS, Options

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?/(.*)", re.DOTALL)
_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}


@dataclass(frozen=True)
class _Place:
    scheme: str
    bucket: str
    parts: tuple[str, ...]

    @staticmethod
    def parse(path: str) -> _Place | None:
        """The place of a full path or URI without detours (``..``, empty parts); None for anything else."""
        match = _URI.fullmatch(path)
        scheme, bucket, rest = ("file", "", path) if match is None else (match[1].lower(), match[2] or "", match[3])
        if match is None and not path.startswith("/"):
            return None
        parts = tuple(rest.strip("/").split("/"))
        return _Place(_SAME.get(scheme, scheme), bucket, parts) if all(map(is_plain_name, parts)) else None

    def is_below(self, directory: _Place) -> bool:
        depth = len(directory.parts)
        same = (self.scheme, self.bucket) == (directory.scheme, directory.bucket)
        return same and len(self.parts) > depth and self.parts[:depth] == directory.parts


def external_file(path: str, root: str, options: Options) -> str:
    """The path, in the form of the storage that the table at ``root`` is in, of a file that a manifest names by path.

    :raises CorruptFile: it lies neither in the table nor where its options declare external paths
    :raises UnsupportedFeature: it is in another kind of storage than the table
    """
    place, table = _Place.parse(path), _Place.parse(root)
    declared = [table, *(_Place.parse(directory) for directory in options.get_option(EXTERNAL_PATHS))]
    if place is None or not any(directory is not None and place.is_below(directory) for directory in declared):
        raise CorruptFile(path, f"a manifest names a file outside of the table and its {EXTERNAL_PATHS.key!r}")
    if table is None or place.scheme != table.scheme:
        raise UnsupportedFeature(
            f"external file {path}: the table is in {root}, and files in another kind of storage are not supported"
        )
    if place.scheme == "file":
        return "/" + "/".join(place.parts)
    return "/".join((f"{root.partition(':')[0]}://{place.bucket}", *place.parts))
