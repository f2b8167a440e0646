"""Every error this package raises on purpose, rooted in :class:`PaimonError`.

A message says what was wrong, where (file, column, option, value) and what to do about it.
"""

from __future__ import annotations


class PaimonError(Exception):
    """Root of all errors of this package."""


class InvalidInput(PaimonError):
    """Data, a filter or an argument does not fit the table. Nothing was written."""


class InvalidOption(InvalidInput):
    """An option has a value that is not allowed, or contradicts another or the existing table."""


class UnsupportedFeature(PaimonError):
    """The table or the request uses a Paimon feature that this package does not implement."""


class NotFound(PaimonError):
    """A table, schema, snapshot, tag or file does not exist (any more)."""


class CorruptFile(PaimonError):
    """A file's bytes contradict its format, its checksum or the metadata that names it."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"corrupt file {path}: {detail}")
        self.path = path
        self.detail = detail

    def __reduce__(self) -> tuple[type[CorruptFile], tuple[str, str]]:
        return type(self), (self.path, self.detail)


class CommitConflict(PaimonError):
    """Another commit changed what this one was built upon. Nothing of this commit is visible; try again."""


class CommitStateUnknown(PaimonError):
    """The storage never answered whether the snapshot was published.

    The commit may or may not be visible, so none of its files are deleted. Look at the table's newest
    snapshots before you write the same data again.
    """


class StorageError(PaimonError):
    """The storage failed to read, write, list or delete a path."""


class NothingWritten(StorageError):
    """The storage failed before anything could have become visible: the disk is full, or may not be written to."""
