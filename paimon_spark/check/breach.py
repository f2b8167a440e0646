"""Breach: one place where a table is not what its format promises."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """What is wrong."""

    MISSING = "missing"
    """A file that the table refers to is not there."""
    SIZE = "size"
    """A file has another size than recorded."""
    CORRUPT = "corrupt"
    """A file's bytes contradict its format, its checksum, or its recorded row count."""
    COUNT = "count"
    """A recorded number of files, rows, deletes, vectors or nulls is not what there is."""
    BOUNDS = "bounds"
    """A recorded range of keys, sequence numbers, partitions, buckets, levels or values does not hold."""
    ENTRY = "entry"
    """Manifests add a file twice, delete one that is not there, or bring a deleted one back."""
    HISTORY = "history"
    """A snapshot does not follow from the one before it."""
    SCHEMA = "schema"
    """A schema that files or snapshots refer to does not exist."""
    BUCKETS = "buckets"
    """A bucket is outside of the number of buckets, or a partition has several numbers of buckets."""
    OVERLAP = "overlap"
    """Two files of one level from 1 up share keys."""
    ORDER = "order"
    """The keys of a file do not strictly ascend."""
    KEY_COPY = "key copy"
    """A file's ``_KEY_`` columns differ from its key columns."""
    NULL = "null"
    """A NOT NULL column holds a null."""
    BUCKET = "bucket"
    """A row is in another bucket than its bucket key says."""
    PARTITION = "partition"
    """A row is in another partition than its partition columns say."""
    SEQUENCE = "sequence"
    """A sequence number is greater than the greatest that the snapshot records."""
    VECTOR = "vector"
    """A deletion vector names no live file of its bucket, or there are two where one may be."""
    DELETES = "deletes"
    """A file from level 1 up holds deletes, where deletion vectors should have replaced them."""
    DUPLICATE = "duplicate"
    """A key has two rows in levels from 1 up that no deletion vector masks."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken invariant: its ``kind``; ``where``, the snapshot or the file, relative to the table's directory;
    and ``detail``, with the values that do not fit each other."""

    kind: Kind
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.where}: {' '.join(self.detail.split())}"
