"""Overtaken: a commit that published an id which others had used, and let expire, since it read the newest snapshot.

A writer reads snapshot N - 1 and publishes N if there is no such file. When it stands still in between for longer than
snapshots are kept, there is none, for the N of somebody else has expired; and its own N lies before the history, where
no reader looks. Expiry deletes from the oldest snapshot upwards and never the newest. So, once N is published:

1. N - 1 is there: nobody had been at N before.
2. N - 1 is gone, and no snapshot is above N: the same.
3. N + 1 is there: it was built upon N. Its base says whether upon ours.
4. N and a snapshot above N + 1 are there, N + 1 is not: N + 1 had expired, and N before it. Ours is overtaken.
5. N is gone as well: it has expired, as part of the history if the next snapshot still has its files. If not, nobody
   knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_spark.errors import NotFound, StorageError
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifest import ADD, ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata


def is_overtaken(metadata: TableMetadata, published: Snapshot) -> bool:
    """Whether a snapshot that was just published lies outside of the table's history.

    :raises StorageError: that cannot be found out
    """
    snapshots, storage, paths = metadata.snapshots, metadata.storage, metadata.paths
    if published.id > 1 and storage.exists(paths.snapshot_file(published.id - 1)):
        return False
    above = min((id_ for id_ in snapshots.ids() if id_ > published.id), default=None)
    if above is None:
        return False
    there = storage.exists(paths.snapshot_file(published.id))
    if above > published.id + 1 and there:
        return True
    try:
        following = snapshots.get(above)
        manifests = metadata.manifests
        base = manifests.read_list(following.base_manifest_list, following.base_manifest_list_size)
        changes = [entry for manifest in manifests.of_delta(published) for entry in manifests.read(manifest)]
        followed = _has(metadata, base, changes)
    except NotFound as missing:
        raise StorageError(f"snapshot {published.id} of {metadata.root} expires while it is looked at") from missing
    if not followed and not there:
        raise StorageError(f"snapshot {published.id} of {metadata.root} has expired already")
    return not followed


def _has(metadata: TableMetadata, base: Iterable[ManifestFile], changes: Iterable[ManifestEntry]) -> bool:
    """Whether the files of a base are those after the changes: all that were added, none that were deleted."""
    live = {entry.identifier for entry in live_entries(metadata.manifests, base)}
    after = {entry.identifier: entry.kind == ADD for entry in changes}
    return all((identifier in live) == added for identifier, added in after.items())
