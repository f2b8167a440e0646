"""The greatest sequence number in a table: recorded by snapshots of this package, or found in the live files."""

from __future__ import annotations

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import KeepEntry
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata

MAX_SEQUENCE = "paimon-py.max-sequence-number"


def max_sequence(metadata: TableMetadata, snapshot: Snapshot | None, keep_entry: KeepEntry | None = None) -> int:
    """A bound of the sequence numbers in the table at a snapshot: none is greater. -1 for a table without files.

    The snapshot may record the table's maximum (property MAX_SEQUENCE, which commits of this package maintain);
    else the live files tell, of which ``keep_entry(partition, bucket, total_buckets)`` may choose some.
    """
    if snapshot is None:
        return -1
    recorded = recorded_maximum(snapshot)
    if recorded is not None:
        return recorded
    files = live_files(metadata, snapshot, keep_entry=keep_entry)
    return max((entry.file.max_sequence for entry in files), default=-1)


def recorded_maximum(snapshot: Snapshot) -> int | None:
    """What the snapshot's property says; None when it has none.

    :raises CorruptFile: it is not a number
    """
    text = (snapshot.properties or {}).get(MAX_SEQUENCE)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise CorruptFile(f"snapshot-{snapshot.id}", f"property {MAX_SEQUENCE} = {text!r} is not a number") from None
