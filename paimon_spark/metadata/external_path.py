"""External paths: files of a table outside of its directory, where its option ``data-file.external-paths`` allows it.

Manifests name such a file by a full path or URI. It must lie below the table's directory or one of the declared ones,
part by part; scheme and bucket count, ``s3:``, ``s3a:`` and ``s3n:`` are one scheme. It may be in another bucket or
kind of storage than the table, whose options then have credentials for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.metadata.file_name import is_plain_name
from paimon_spark.options import EXTERNAL_PATHS, Options

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?/(.*)", re.DOTALL)
_KNOWN = frozenset({"file", "s3", "gs", "abfs", "hdfs"})
_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}


@dataclass(frozen=True)
class _Place:
    scheme: str
    bucket: str
    parts: tuple[str, ...]
    spelling: str = field(compare=False)

    @staticmethod
    def parse(path: str) -> _Place | None:
        """The place of a full path or URI without detours (``..``, empty parts); None for anything else."""
        match = _URI.fullmatch(path)
        scheme, bucket, rest = ("file", "", path) if match is None else (match[1].lower(), match[2] or "", match[3])
        if match is None and not path.startswith("/"):
            return None
        parts = tuple(rest.strip("/").split("/"))
        return _Place(_SAME.get(scheme, scheme), bucket, parts, scheme) if all(map(is_plain_name, parts)) else None

    def is_below(self, directory: _Place) -> bool:
        depth = len(directory.parts)
        same = (self.scheme, self.bucket) == (directory.scheme, directory.bucket)
        return same and len(self.parts) > depth and self.parts[:depth] == directory.parts


def external_file(path: str, root: str, options: Options) -> str:
    """The path of a file that a manifest names by path, as the storage knows it that reads the table at ``root``.

    :raises CorruptFile: it lies neither in the table nor where its options declare external paths
    :raises UnsupportedFeature: it is in a kind of storage that this package does not read
    """
    place, table = _Place.parse(path), _Place.parse(root)
    declared = [table, *(_Place.parse(directory) for directory in options.get_option(EXTERNAL_PATHS))]
    found = [directory for directory in declared if place is not None and directory and place.is_below(directory)]
    if place is None or not found:
        raise CorruptFile(path, f"a manifest names a file outside of the table and its {EXTERNAL_PATHS.key!r}")
    if place.scheme not in _KNOWN:
        raise UnsupportedFeature(f"external file {path}: storage scheme {place.scheme!r} is not supported")
    if place.scheme == "file":
        return "/" + "/".join(place.parts)
    # The table's own storage opens other buckets of its scheme by its own spelling of that.
    near = table is not None and table.scheme == place.scheme in ("s3", "gs")
    spelling = table.spelling if table is not None and near else found[0].spelling
    return "/".join((f"{spelling}://{place.bucket}", *place.parts))
