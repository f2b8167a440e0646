"""DataFile: what a manifest knows of one data file (Java's DataFileMeta)."""

from __future__ import annotations

from typing import NamedTuple

APPEND, COMPACT = 0, 1


class Statistics(NamedTuple):
    """Column statistics of a file. ``lower`` and ``upper`` are serialized BinaryRows (4-byte big-endian arity,
    then the row) with a null where a bound is unknown; ``null_counts`` has None where unknown."""

    lower: bytes
    upper: bytes
    null_counts: tuple[int | None, ...]


class DataFile(NamedTuple):
    """One immutable data file, as a manifest describes it; a tuple, since a plan makes tens of thousands of them.

    ``min_key`` and ``max_key`` are serialized BinaryRows of the trimmed primary key. They and the sequence bounds are
    inclusive; after a compaction by Java 0.9 that dropped deletes, the keys may reach further than the rows do.
    ``row_count`` counts all rows, ``delete_row_count`` those of kind -U or -D (None where the writer did not say).
    ``value_stats_cols`` names the columns of ``value_stats`` when they are not all columns of the file's schema.
    ``creation_millis`` is local wall-clock time as if it were UTC. ``source`` is APPEND (0), COMPACT (1) or None.
    """

    name: str
    size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: Statistics
    value_stats: Statistics
    min_sequence: int
    max_sequence: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_millis: int | None = None
    delete_row_count: int | None = 0
    embedded_index: bytes | None = None
    source: int | None = APPEND
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def at_level(self, level: int) -> DataFile:
        """The same file, listed at another level."""
        return self._replace(level=level)

    @property
    def age(self) -> tuple[int, int, int, str]:
        """Sorts files of level 0 from the newest to the oldest, as Java's ``Levels`` does."""
        return -self.max_sequence, self.min_sequence, self.creation_millis or 0, self.name
