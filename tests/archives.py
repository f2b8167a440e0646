"""Archives of the tests, unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, into: Path, member: str | None = None) -> None:
    """Everything of an archive, or one member, into a directory, and nothing outside of it."""
    with tarfile.open(archive) as tar:
        # The first Pythons 3.10 and 3.11 have no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(into, [tar.getmember(member)] if member else None)
