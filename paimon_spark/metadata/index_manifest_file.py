"""IndexManifestFile: a snapshot's index manifest, and how long it has to be.

The format records no size of index manifests, so one that is cut off right behind its Avro header would read as one
without entries, and deleted rows would come back. Snapshots of this package therefore have the property::

    paimon-py.index-manifest = <size in bytes> <name>

It holds for the file that it names. Other writers' snapshots lack it, or would carry on that of another file; there the
size is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.snapshot import Snapshot

INDEX_MANIFEST = "paimon-py.index-manifest"


@dataclass(frozen=True, slots=True)
class IndexManifestFile:
    """An index manifest by name; ``size`` in bytes is None where it is unknown."""

    name: str
    size: int | None

    @staticmethod
    def of(snapshot: Snapshot | None) -> IndexManifestFile | None:
        """That of a snapshot; None when it has none.

        :raises CorruptFile: the snapshot records a size that is no number
        """
        if snapshot is None or snapshot.index_manifest is None:
            return None
        size, _, name = (snapshot.properties or {}).get(INDEX_MANIFEST, "").partition(" ")
        if name != snapshot.index_manifest:
            return IndexManifestFile(snapshot.index_manifest, None)
        if not (size.isascii() and size.isdigit() and len(size) < 19):
            raise CorruptFile(f"snapshot-{snapshot.id}", f"property {INDEX_MANIFEST} records a size of {size[:200]!r}")
        return IndexManifestFile(name, int(size))

    def properties(self) -> dict[str, str]:
        """What a snapshot records of it."""
        return {} if self.size is None else {INDEX_MANIFEST: f"{self.size} {self.name}"}
