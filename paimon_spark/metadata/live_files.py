"""Live files: the data files that make up the table at a snapshot.

A file is live when a manifest of the snapshot adds it and none deletes it. The order of the entries does not matter,
because an identifier that was deleted is never added again (file names are unique, and a file that moves to another
level has another identifier). So deletions may stand before or after the additions they cancel.

Source: ``AbstractFileStoreScan.readAndMergeFileEntries`` and ``FileEntry`` of Apache Paimon.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.key_order import comparable_rows
from paimon_spark.metadata.manifest import ADD, Identifier, KeepEntry, ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.manifest_store import ManifestStore
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot

KeepManifest = Callable[[ManifestFile], bool]


class HasManifests(Protocol):
    """A table's metadata, as far as a scan needs it."""

    @property
    def manifests(self) -> ManifestStore:
        """The manifests of the table."""
        ...


def live_files(
    metadata: HasManifests,
    snapshot: Snapshot,
    keep_manifest: KeepManifest | None = None,
    keep_entry: KeepEntry | None = None,
) -> list[ManifestEntry]:
    """The additions that are live at a snapshot, in the order of its manifests.

    ``keep_manifest`` and ``keep_entry(partition, bucket, total_buckets)`` say what is wanted; they may only look at
    partitions and buckets, as additions and their deletions must be kept or left out together.

    :raises CorruptFile: a manifest is corrupt, or a file is added twice
    :raises NotFound: the snapshot expired meanwhile
    """
    store = metadata.manifests
    return live_entries(store, store.of_snapshot(snapshot), keep_manifest, keep_entry)


def live_entries(
    store: ManifestStore,
    manifests: Iterable[ManifestFile],
    keep_manifest: KeepManifest | None = None,
    keep_entry: KeepEntry | None = None,
) -> list[ManifestEntry]:
    """The same for a list of manifests that was already read."""
    added: list[ManifestEntry] = []
    deleted: set[Identifier] = set()
    with _collector_paused():
        for manifest in manifests:
            if keep_manifest is not None and not keep_manifest(manifest):
                continue
            for entry in store.read(manifest, keep_entry):
                if entry.kind == ADD:
                    added.append(entry)
                else:
                    deleted.add(entry.identifier)
    if not deleted and len({entry.file.name for entry in added}) == len(added):
        return added
    live = {entry.identifier: entry for entry in added}
    if len(live) != len(added):
        raise CorruptFile(store.paths.manifest_directory, _added_twice(added))
    return [entry for identifier, entry in live.items() if identifier not in deleted]


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Entries are many objects without a cycle among them; looking for cycles in them takes a third of the time.

    Freezing and unfreezing counts them as old, so that the collector does not look when it is back either.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()


def holding(partitions: Collection[bytes], schema: TableSchema) -> KeepManifest:
    """A ``keep_manifest`` that leaves out manifests whose partition bounds have no room for any of the partitions."""
    types = [field.type for field in schema.partition_fields]
    wanted = comparable_rows(list(partitions), types)

    def holds(manifest: ManifestFile) -> bool:
        stats = manifest.partition_stats
        lower, upper = comparable_rows([stats.lower, stats.upper], types)
        return any(
            all(
                not valid or not low[0] or not high[0] or low[1] <= value <= high[1]
                for (valid, value), low, high in zip(partition, lower, upper, strict=True)
            )
            for partition in wanted
        )

    return holds


def within(partitions: Collection[bytes]) -> KeepEntry:
    """A ``keep_entry`` that wants the entries of these partitions."""
    return lambda partition, bucket, total_buckets: partition in partitions


def _added_twice(added: Iterable[ManifestEntry]) -> str:
    seen: set[Identifier] = set()
    for entry in added:
        if entry.identifier in seen:
            return f"manifests add the file {entry.file.name} at level {entry.file.level} twice"
        seen.add(entry.identifier)
    return "manifests add a file twice"
