"""CommitFiles: the metadata files that a commit writes before its snapshot, and their removal when it fails."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.index_manifest import IndexManifest
from paimon_spark.metadata.index_manifest_file import IndexManifestFile
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.manifest_merge import ManifestMerge
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata

ListName = tuple[str, int]
"""Name and size in bytes of a manifest list."""


class CommitFiles:
    """Writes the manifests and lists of one commit, over all its attempts.

    The delta manifests and their list depend on the changes only, so attempts share them; the base list, what
    merging wrote, and the index manifest belong to one attempt. Only names that this object made are ever deleted.
    """

    def __init__(self, metadata: TableMetadata, schema: TableSchema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._changes: list[ManifestEntry] | None = None
        self._delta_list: ListName = ("", 0)
        self._of_changes: list[str] = []
        self._of_attempt: list[str] = []

    def delta_list(self, changes: list[ManifestEntry]) -> ListName:
        """The list of manifests with these changes, written unless the attempt before had the same."""
        if self._changes is None or self._changes != changes:
            self._discard(self._of_changes)
            self._changes = None
            written: list[ManifestFile] = []
            for manifest in self._metadata.manifests.write(changes, self._schema):
                self._of_changes.append(manifest.name)
                written.append(manifest)
            self._delta_list = self._metadata.manifests.write_list(written, self._schema)
            self._of_changes.append(self._delta_list[0])
            self._changes = changes
        return self._delta_list

    def base_list(self, manifests: Sequence[ManifestFile], merge: bool) -> ListName:
        """A list of these manifests, merged where it pays if ``merge``."""
        if merge:
            merging = ManifestMerge(self._metadata.manifests, self._schema)
            try:
                manifests = merging.merge(manifests)
            finally:
                self._of_attempt += [manifest.name for manifest in merging.written]
        written = self._metadata.manifests.write_list(manifests, self._schema)
        self._of_attempt.append(written[0])
        return written

    def index_manifest(self, manifest: IndexManifest) -> IndexManifestFile | None:
        """An index manifest of that state; None for the state without index files."""
        if not manifest.entries:
            return None
        written = self._metadata.indexes.write(manifest, self._schema)
        self._of_attempt.append(written.name)
        return written

    def discard_attempt(self) -> None:
        """Delete what the attempt wrote, apart from its changes, which the next one can use again."""
        self._discard(self._of_attempt)

    def discard(self) -> None:
        """Delete everything that this commit wrote."""
        self._discard(self._of_attempt)
        self._discard(self._of_changes)
        self._changes = None

    def _discard(self, names: list[str]) -> None:
        """Delete files; one that cannot be deleted is left over, unreferenced, which does no harm."""
        for name in names:
            with contextlib.suppress(PaimonError):
                self._metadata.manifests.delete(name)
        names.clear()
