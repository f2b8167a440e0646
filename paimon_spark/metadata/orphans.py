"""Orphans: files of a table that nothing refers to, left by writers that were killed.

What is looked at, and when it is an orphan:

* ``manifest/``, ``index/``, ``statistics/`` and the bucket directories: files that no snapshot, tag or long-lived
  changelog of the table or of one of its branches uses.
* ``snapshot/``, ``changelog/``, ``schema/``, ``tag/``: temporary files, whose names begin with a dot and end in
  ``.tmp``.

Only files older than a given time are looked at, because a writer's files are unreferenced until it commits. They are
listed first and the references are read afterwards: a file that is committed in between is then seen as used. When
anything cannot be read, apart from a snapshot that expired meanwhile, nothing is deleted.

Not looked at: ``data-file.external-paths``, and directories that do not belong to a table (a partition directory is
named ``column=value``, once for each partition column, and holds directories named ``bucket-…``).

Source: ``OrphanFilesClean`` and ``LocalOrphanFilesClean`` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from paimon_spark.errors import NotFound
from paimon_spark.metadata.branches import branch_roots
from paimon_spark.metadata.partition import escape
from paimon_spark.metadata.paths import TablePaths, listed_id
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot, SnapshotStore
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import PATH_DIRECTORY

CHANGELOG_PREFIX = "changelog-"
_BUCKET = re.compile(r"bucket-(\d+|postpone)")
_NAMED = ("manifest", "index", "statistics")
_PUBLISHED = ("snapshot", "changelog", "schema", "tag")


@dataclass(frozen=True)
class Orphan:
    """A file that nothing refers to: its full path, its size in bytes, its time of last change in epoch millis."""

    path: str
    size: int
    modified_millis: int


def find_orphans(metadata: TableMetadata, older_than_millis: int) -> list[Orphan]:
    """The orphans that were last changed before a time in epoch milliseconds, by path.

    :raises PaimonError: something that may refer to files cannot be read; then nothing is known to be an orphan
    """
    schema = metadata.schemas.latest()
    if schema is None:
        raise NotFound(f"there is no Paimon table at {metadata.root}")
    branches = branch_roots(metadata)
    candidates = [c for c in _candidates(metadata, schema, branches) if c.modified_millis < older_than_millis]
    if not candidates:
        return []
    used = _References(metadata)
    for root in (metadata.root, *branches):
        used.add_versions(root)
    orphans = (c for c in candidates if _is_temporary(c.path) or c.path.rpartition("/")[2] not in used.names)
    return sorted(orphans, key=lambda orphan: orphan.path)


# --------------------------------------------------------------------------- what is there


def _candidates(metadata: TableMetadata, schema: TableSchema, branches: list[str]) -> Iterator[Orphan]:
    """Every file that may be an orphan, whatever its age and whether something refers to it."""
    for directory in (f"{metadata.root}/{name}" for name in _NAMED):
        yield from _files(metadata, directory)
    for directory in _bucket_directories(metadata, schema):
        yield from _files(metadata, directory)
    for root in (metadata.root, *branches):
        for name in _PUBLISHED:
            yield from (file for file in _files(metadata, f"{root}/{name}") if _is_temporary(file.path))


def _files(metadata: TableMetadata, directory: str) -> Iterator[Orphan]:
    for file in metadata.storage.list(directory):
        yield Orphan(f"{directory}/{file.name}", file.size, file.modified_millis)


def _is_temporary(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") and name.endswith(".tmp")


def _bucket_directories(metadata: TableMetadata, schema: TableSchema) -> Iterator[str]:
    inside = (schema.options.get_option(PATH_DIRECTORY) or "").strip("/")
    directories = [f"{metadata.root}/{inside}" if inside else metadata.root]
    for column in schema.partition_keys:
        directories = [
            d for parent in directories for d in _below(metadata, parent, _begins_with(f"{escape(column)}="))
        ]
    for parent in directories:
        yield from _below(metadata, parent, lambda name: _BUCKET.fullmatch(name) is not None)


def _below(metadata: TableMetadata, parent: str, wanted: Callable[[str], bool]) -> list[str]:
    return [f"{parent}/{name}" for name in metadata.storage.directories(parent) if wanted(name)]


def _begins_with(prefix: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefix)


# --------------------------------------------------------------------------- what is used


class _References:
    """The names of all files in use. Names suffice: they are unique, and one too many only keeps a file."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self.names: set[str] = set()
        self._read_lists: set[str] = set()

    def add_versions(self, root: str) -> None:
        """What the snapshots, tags and long-lived changelogs of the table or branch in ``root`` use."""
        store = SnapshotStore(self._metadata.storage, TablePaths(root))
        for id_ in store.ids():
            self._add(partial(store.get, id_))
        for tag in store.tags():
            self._add(partial(store.tag, tag))
        for file in self._metadata.storage.list(f"{root}/changelog"):
            if listed_id(file.name, CHANGELOG_PREFIX) is not None:
                self._add_changelog(f"{root}/changelog/{file.name}")

    def _add(self, read: Callable[[], Snapshot]) -> None:
        try:
            snapshot = read()
        except NotFound:  # it has just expired
            return
        try:
            self._add_snapshot(snapshot)
        except NotFound:
            try:
                read()
            except NotFound:
                return
            raise

    def _add_snapshot(self, snapshot: Snapshot) -> None:
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list):
            if name:
                self._add_list(name)
        if snapshot.statistics is not None:
            self.names.add(snapshot.statistics)
        if snapshot.index_manifest is not None and snapshot.index_manifest not in self.names:
            entries = self._metadata.indexes.of_snapshot(snapshot).entries
            self.names.update(entry.name for entry in entries)
            self.names.add(snapshot.index_manifest)

    def _add_changelog(self, path: str) -> None:
        """A changelog outlives its snapshot, whose lists it still names; those that are gone hold nothing back."""
        try:
            changelog = Snapshot.parse(self._metadata.storage.read(path), path)
        except NotFound:
            return
        for name in (changelog.base_manifest_list, changelog.delta_manifest_list, changelog.changelog_manifest_list):
            if name and self._metadata.storage.exists(self._metadata.paths.manifest(name)):
                self._add_list(name)
        self.names.update(n for n in (changelog.statistics, changelog.index_manifest) if n is not None)

    def _add_list(self, name: str) -> None:
        if name in self._read_lists:
            return
        for manifest in self._metadata.manifests.read_list(name):
            if manifest.name not in self.names:
                for entry in self._metadata.manifests.read(manifest):
                    self.names.add(entry.file.name)
                    self.names.update(entry.file.extra_files)
                self.names.add(manifest.name)
        self.names.add(name)
        self._read_lists.add(name)
