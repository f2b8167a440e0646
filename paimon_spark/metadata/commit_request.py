"""CommitRequest: what a caller wants to be the table's next snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from paimon_spark.metadata.index_manifest import IndexEntry
from paimon_spark.metadata.manifest import DELETE, ManifestEntry
from paimon_spark.metadata.snapshot import Snapshot

BATCH_IDENTIFIER = 2**63 - 1

Bucket = tuple[bytes, int]
Deletions = Callable[[Snapshot | None], Sequence[ManifestEntry]]
IndexChanges = Callable[[Snapshot | None], Sequence[IndexEntry]]


@dataclass(frozen=True)
class CommitRequest:
    """What to commit.

    ``kind`` is APPEND (additions only), OVERWRITE or COMPACT. ``adds`` are entries of kind ADD; ``deletes`` the live
    entries to remove, either kind. Deletions and index changes may be functions of the snapshot that the commit is
    going to follow (None for the first), called again for every attempt.

    ``identifier`` makes the commit repeatable: it increases strictly from one commit of a user to the next. Batch
    jobs use BATCH_IDENTIFIER and a fresh user. ``vectors_from`` names, for buckets that were rewritten with regard to
    their deletion vectors, the index file that had these (None: there was none); the commit conflicts when that has
    changed.
    ``known_maximum`` is a snapshot's id and the greatest sequence number in the table at it, if the caller knows.
    """

    kind: str
    adds: Sequence[ManifestEntry] = ()
    deletes: Sequence[ManifestEntry] | Deletions = ()
    index_changes: Sequence[IndexEntry] | IndexChanges = ()
    identifier: int = BATCH_IDENTIFIER
    properties: Mapping[str, str] = field(default_factory=dict)
    vectors_from: Mapping[Bucket, str | None] = field(default_factory=dict)
    known_maximum: tuple[int, int] | None = None
    watermark: int | None = None

    def changes(self, latest: Snapshot | None) -> list[ManifestEntry]:
        """The entries of the delta manifest: deletions first, so that a file can move to another level."""
        live = self.deletes(latest) if callable(self.deletes) else self.deletes
        return [*(entry if entry.kind == DELETE else entry.deleted() for entry in live), *self.adds]

    def changes_of_indexes(self, latest: Snapshot | None) -> Sequence[IndexEntry]:
        """The index files that come and go."""
        return self.index_changes(latest) if callable(self.index_changes) else self.index_changes
