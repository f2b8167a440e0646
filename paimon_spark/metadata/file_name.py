"""Names of files inside metadata files: checked before a path is made of them."""

from __future__ import annotations

from paimon_spark.errors import CorruptFile


def is_plain_name(name: str) -> bool:
    """Whether ``name`` names a file in the directory where it is looked up, and nowhere else."""
    return bool(name) and "/" not in name and "\\" not in name and "\0" not in name and name not in (".", "..")


def require_plain_name(name: str, path: str) -> str:
    """``name``, found in the file ``path``.

    :raises CorruptFile: it has path separators, or leads elsewhere
    """
    if not is_plain_name(name):
        raise CorruptFile(path, f"it names a file {name[:200]!r}, which is not a plain file name")
    return name
