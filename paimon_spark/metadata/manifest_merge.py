"""Merging manifests, so that the thousandth commit of a table costs what the tenth did.

Every commit adds a manifest or more. Before it refers to those of its predecessors, it may rewrite some into fewer:

* FULL, when the manifests that are small or hold deletions sum up to ``manifest.full-compaction-threshold-size``.
  Deletions vanish together with the additions they cancel. Manifests that lose nothing are kept as they are.
* MINOR otherwise. The list is walked and cut into groups of ``manifest.target-file-size``; each group of two or more
  becomes one manifest. What is left at the end is merged once it counts ``manifest.merge-min-count``. A deletion
  cancels an addition of its own group; other deletions are kept, for their additions are in earlier manifests.

Deciding (:func:`must_change`, :func:`full_is_due`, :func:`minor_groups`) is apart from doing (:class:`ManifestMerge`).

Source: ``ManifestFileMerger`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.live_files import holding
from paimon_spark.metadata.manifest import ADD, Identifier, ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.manifest_store import ManifestStore
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import MANIFEST_FULL_THRESHOLD, MANIFEST_MERGE_MIN_COUNT, MANIFEST_TARGET_SIZE, Options


@dataclass(frozen=True)
class MergeLimits:
    """When manifests are merged: sizes in bytes, and the number of small ones that are left alone."""

    target_size: int
    full_threshold: int
    min_count: int

    @classmethod
    def of(cls, options: Options) -> MergeLimits:
        """The limits that a table's options set."""
        return cls(
            options.get_option(MANIFEST_TARGET_SIZE),
            options.get_option(MANIFEST_FULL_THRESHOLD),
            options.get_option(MANIFEST_MERGE_MIN_COUNT),
        )


def must_change(manifest: ManifestFile, limits: MergeLimits) -> bool:
    """Whether a full merge rewrites the manifest in any case: it is small, or holds deletions."""
    return manifest.deleted > 0 or manifest.size < limits.target_size


def full_is_due(manifests: Iterable[ManifestFile], limits: MergeLimits) -> bool:
    """Whether enough bytes would profit from a full merge."""
    return sum(m.size for m in manifests if must_change(m, limits)) >= limits.full_threshold


def minor_groups(manifests: Sequence[ManifestFile], limits: MergeLimits) -> list[list[ManifestFile]]:
    """The list cut into groups, in order; a group of more than one manifest is to become one."""
    groups: list[list[ManifestFile]] = []
    group: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        group.append(manifest)
        size += manifest.size
        if size >= limits.target_size:
            groups.append(group)
            group, size = [], 0
    if len(group) >= limits.min_count:
        groups.append(group)
    else:
        groups.extend([manifest] for manifest in group)
    return groups


def merge_in_order(entries: Iterable[ManifestEntry], where: str) -> list[ManifestEntry]:
    """What is left of consecutive entries: additions that no later one deletes, and deletions of earlier files.

    :raises CorruptFile: an entry adds what is already there; ``where`` says in which files
    """
    left: dict[Identifier, ManifestEntry] = {}
    for entry in entries:
        identifier = entry.identifier
        earlier = left.get(identifier)
        if earlier is None:
            left[identifier] = entry
        elif entry.kind != ADD and earlier.kind == ADD:
            del left[identifier]
        else:
            verb = "add" if entry.kind == ADD else "delete"
            raise CorruptFile(where, f"manifests {verb} the file {entry.file.name} at level {entry.file.level} twice")
    return list(left.values())


class ManifestMerge:
    """Merges a list of manifests. ``written`` has the new ones, also after a failure: the caller deletes them then."""

    def __init__(self, store: ManifestStore, schema: TableSchema) -> None:
        self._store = store
        self._schema = schema
        self._limits = MergeLimits.of(schema.options)
        self.written: list[ManifestFile] = []

    def merge(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Manifests of the same content, fewer where it pays."""
        if full_is_due(manifests, self._limits):
            merged = self._full(manifests)
            if merged is not None:
                return merged
        return self._minor(manifests)

    def _minor(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        result: list[ManifestFile] = []
        for group in minor_groups(manifests, self._limits):
            if len(group) == 1:
                result += group
            else:
                entries = (entry for manifest in group for entry in self._store.read(manifest))
                result += self._write(merge_in_order(entries, self._store.paths.manifest_directory))
        return result

    def _full(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile] | None:
        """The merged list; None when at most one manifest would be rewritten."""
        entries = {m.name: self._store.read(m) for m in manifests if must_change(m, self._limits)}
        deletions = [entry for read in entries.values() for entry in read if entry.kind != ADD]
        deleted = {entry.identifier for entry in deletions}
        affected = holding({entry.partition for entry in deletions}, self._schema)
        rewritten = [m for m in manifests if m.name in entries or affected(m)]
        if len(rewritten) <= 1:
            return None
        result = [m for m in manifests if m.name not in entries and not affected(m)]
        kept: list[ManifestEntry] = []
        for manifest in rewritten:
            additions = entries.get(manifest.name) or self._store.read(manifest)
            left = [entry for entry in additions if entry.kind == ADD and entry.identifier not in deleted]
            if manifest.name not in entries and len(left) == len(additions):
                result.append(manifest)
            else:
                kept += left
        return result + self._write(kept)

    def _write(self, entries: Sequence[ManifestEntry]) -> list[ManifestFile]:
        start = len(self.written)
        for manifest in self._store.write(entries, self._schema):
            self.written.append(manifest)
        return self.written[start:]
