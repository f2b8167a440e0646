"""ExpiredFiles: what goes with a snapshot, because no version of the table that is kept refers to it.

Of snapshot N, whose successor N+1 stays or goes next:

* data files that N+1 deletes, with their extra files. A file that N+1 deletes at one level and adds at another has
  only moved, and stays.
* manifests, manifest lists, index manifest, index files and statistics that N refers to and N+1 does not. What N+1
  has dropped never comes back, so later snapshots need not be asked.
* its changelog, which belongs to it alone.

Of these stay what a tag or a branch uses. What is used is used from one snapshot to the next without a break, so of the
tags up to N the nearest one speaks for all. Of a branch, which began as a copy of a snapshot, its earliest snapshot
speaks for the later ones, and each of its tags for itself.

Source: ``SnapshotDeletion``, ``FileDeletionBase`` of Apache Paimon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from paimon_spark.errors import NotFound
from paimon_spark.metadata.branches import branch_roots
from paimon_spark.metadata.live_files import holding, live_files, within
from paimon_spark.metadata.locations import data_file_path
from paimon_spark.metadata.manifest import ADD, Identifier, ManifestEntry
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot, SnapshotStore
from paimon_spark.metadata.table_metadata import TableMetadata


@dataclass(frozen=True)
class Leaving:
    """What a snapshot has that its successor has not: data files, and the paths of all others."""

    data: tuple[ManifestEntry, ...]
    others: frozenset[str]
    changelog: tuple[str, ...]


def removed(changes: Iterable[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    """The files that a snapshot's changes take out of the table; those that change their level stay."""
    added: dict[Identifier, str] = {}
    deleted: dict[Identifier, ManifestEntry] = {}
    for entry in changes:
        if entry.kind == ADD:
            added[entry.identifier] = entry.file.name
        else:
            deleted[entry.identifier] = entry
    staying = {name for identifier, name in added.items() if identifier not in deleted}
    gone = {entry.file.name: entry for entry in deleted.values() if entry.file.name not in staying}
    return tuple(gone.values())


@dataclass
class ExpiredFiles:
    """Finds the files of expiring snapshots of one table. Remembers what it read; make a new one for each expiry."""

    metadata: TableMetadata
    schema: TableSchema
    _known: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _live: dict[tuple[str, frozenset[bytes]], frozenset[str]] = field(default_factory=dict, init=False)

    def leaving(self, going: Snapshot, successor: Snapshot) -> Leaving:
        """What ``going`` has and ``successor`` has not. Files that an interrupted expiry has deleted are passed over.

        :raises CorruptFile: something cannot be read, so that nothing is known of the files
        """
        try:
            kept = self.references(successor)
        except NotFound:
            return Leaving((), frozenset(), ())
        changes = [e for m in self.metadata.manifests.of_delta(successor) for e in self.metadata.manifests.read(m)]
        return Leaving(removed(changes), self._own_references(going) - kept, tuple(self._changelog(going)))

    def unused(self, leaving: Leaving, keepers: Sequence[Snapshot]) -> Iterator[str]:
        """The paths of what leaves and no keeper refers to; data files first.

        :raises NotFound: a file of a keeper is gone
        """
        partitions = frozenset(entry.partition for entry in leaving.data)
        live = [self._live_names(keeper, partitions) for keeper in keepers if partitions]
        for entry in leaving.data:
            if not any(entry.file.name in names for names in live):
                yield from self._data_paths(entry)
        yield from leaving.changelog
        kept = frozenset[str]().union(*(self.references(keeper) for keeper in keepers if leaving.others))
        yield from sorted(leaving.others - kept)

    def keepers(self, snapshot_id: int) -> list[Snapshot]:
        """The tagged and branched snapshots that together refer to all that a snapshot's expiry must not touch.

        :raises CorruptFile: a tag or a branch cannot be read
        """
        snapshots = self.metadata.snapshots
        tagged = [tag for tag in _tags(snapshots) if tag.id <= snapshot_id]
        found = [max(tagged, key=lambda tag: tag.id)] if tagged else []
        for root in branch_roots(self.metadata):
            branch = SnapshotStore(self.metadata.storage, TablePaths(root))
            found += _tags(branch)
            first = branch.earliest_id()
            if first is not None:
                found.append(branch.get(first))
        return found

    # ------------------------------------------------------------------ what a snapshot refers to

    def references(self, snapshot: Snapshot) -> frozenset[str]:
        """The paths of all files, apart from data files and changelog, that a snapshot refers to.

        :raises NotFound: one of its lists is gone, so that they are not known
        """
        known = self._known.get(snapshot.delta_manifest_list)
        if known is None:
            found: set[str] = set()
            for part in self._parts(snapshot):
                found.update(part())
            known = self._known[snapshot.delta_manifest_list] = frozenset(found)
        return known

    def _own_references(self, snapshot: Snapshot) -> frozenset[str]:
        """The same of a snapshot whose lists may be gone."""
        found: set[str] = set()
        for part in self._parts(snapshot):
            with contextlib.suppress(NotFound):
                found.update(part())
        return frozenset(found)

    def _parts(self, snapshot: Snapshot) -> Iterator[Callable[[], Iterable[str]]]:
        yield lambda: self._list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        yield lambda: self._list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        yield lambda: self._indexes(snapshot)
        if snapshot.statistics is not None:
            name = snapshot.statistics
            yield lambda: [self.metadata.paths.statistics_file(name)]

    def _list(self, name: str, size: int | None) -> list[str]:
        manifests = self.metadata.manifests.read_list(name, size)
        return [self.metadata.paths.manifest(file) for file in (name, *(manifest.name for manifest in manifests))]

    def _indexes(self, snapshot: Snapshot) -> list[str]:
        if snapshot.index_manifest is None:
            return []
        indexes = self.metadata.indexes
        entries = indexes.of_snapshot(snapshot).entries
        manifest = self.metadata.paths.manifest(snapshot.index_manifest)
        return [manifest, *(indexes.index_path(entry, self.schema) for entry in entries)]

    def _changelog(self, snapshot: Snapshot) -> Iterator[str]:
        name, manifests = snapshot.changelog_manifest_list, self.metadata.manifests
        if name is None:
            return
        with contextlib.suppress(NotFound):
            for manifest in manifests.read_list(name, snapshot.changelog_manifest_list_size):
                with contextlib.suppress(NotFound):
                    for entry in manifests.read(manifest):
                        if entry.kind == ADD:
                            yield from self._data_paths(entry)
                yield self.metadata.paths.manifest(manifest.name)
        yield self.metadata.paths.manifest(name)

    # ------------------------------------------------------------------ data files

    def _data_paths(self, entry: ManifestEntry) -> Iterator[str]:
        path = data_file_path(self.metadata.paths, self.schema, entry.partition, entry.bucket, entry.file)
        yield path
        directory = path.rpartition("/")[0]
        yield from (f"{directory}/{name}" for name in entry.file.extra_files)

    def _live_names(self, keeper: Snapshot, partitions: frozenset[bytes]) -> frozenset[str]:
        key = keeper.delta_manifest_list, partitions
        if key not in self._live:
            entries = live_files(self.metadata, keeper, holding(partitions, self.schema), within(partitions))
            self._live[key] = frozenset(entry.file.name for entry in entries)
        return self._live[key]


def _tags(snapshots: SnapshotStore) -> list[Snapshot]:
    found = []
    for name in snapshots.tags():
        with contextlib.suppress(NotFound):  # it was deleted just now
            found.append(snapshots.tag(name))
    return found
