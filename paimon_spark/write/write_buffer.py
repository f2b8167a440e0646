"""WriteBuffer: rows of one task, held up to ``write-buffer-size`` and flushed to level 0.

A flush splits the rows by destination, sorts each destination's rows by key, sequence and age, folds equal keys with
the table's merge engine, and writes one level-0 file (or several, when they roll). Every file therefore holds a key
once, as readers of a lone level-0 file rely on.

Memory: the buffered rows (at most ``write-buffer-size``, and never more than 1 GiB, because Arrow's string offsets
are 32 bits wide), one copy of them in a single chunk, and the sorted and merged rows of one destination.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from paimon_spark.errors import InvalidInput, PaimonError
from paimon_spark.files.key_values import KeyValues, concat
from paimon_spark.files.writer import RollingWriter
from paimon_spark.merge.engine import MergeEngine, merge_engine
from paimon_spark.merge.keys import normalize
from paimon_spark.merge.sorted_merge import fold
from paimon_spark.metadata.data_file import APPEND, DataFile
from paimon_spark.metadata.manifest import ADD, ManifestEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import BUCKET, GB, WRITE_BUFFER_SIZE
from paimon_spark.write.destinations import Destination, Destinations

_WRITE_ROWS = 131_072


class WriteBuffer:
    """Collects rows that already have sequence numbers; :meth:`flush` turns them into level-0 files."""

    def __init__(self, metadata: TableMetadata, schema: TableSchema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._limit = min(schema.options.get_option(WRITE_BUFFER_SIZE), GB)
        self._buckets = schema.options.get_option(BUCKET)
        self._destinations = Destinations(schema, metadata.paths)
        self._engine: MergeEngine = merge_engine(schema)
        self._parts: list[KeyValues] = []
        self._bytes = 0
        self._written: list[tuple[Destination, DataFile]] = []

    def add(self, rows: KeyValues) -> None:
        """Take the rows, flushing before they would exceed the bound.

        :raises InvalidInput: a single row is larger than ``write-buffer-size``
        """
        for part in self._fitting(rows):
            size = part.nbytes
            if self._parts and self._bytes + size > self._limit:
                self.flush()
            self._parts.append(part)
            self._bytes += size

    def _fitting(self, rows: KeyValues) -> Iterator[KeyValues]:
        """The rows cut into parts that each fit the buffer."""
        if rows.nbytes <= self._limit:
            if len(rows):
                yield rows
            return
        if len(rows) == 1:
            raise InvalidInput(
                f"a row of {rows.nbytes} bytes does not fit the write buffer of {self._limit} bytes; "
                f"raise the option {WRITE_BUFFER_SIZE.key!r}"
            )
        middle = len(rows) // 2
        yield from self._fitting(rows.slice(0, middle))
        yield from self._fitting(rows.slice(middle, len(rows)))

    def flush(self) -> None:
        """Write everything that is buffered to level 0."""
        if not self._parts:
            return
        rows = concat(self._parts)
        self._parts, self._bytes = [], 0
        for destination, members in self._destinations.split(rows):
            self._write(destination, self._fold(members))

    def _fold(self, rows: KeyValues) -> KeyValues:
        fields = self._schema.key_fields
        keys = normalize([rows.values.column(f.name) for f in fields], [f.type for f in fields])
        return fold(keys, rows, self._engine)

    def _write(self, destination: Destination, rows: KeyValues) -> None:
        metadata, schema = self._metadata, self._schema
        writer = RollingWriter(metadata.storage, destination.directory, schema, schema.options, level=0, source=APPEND)
        try:
            for start in range(0, len(rows), _WRITE_ROWS):
                writer.write(rows.slice(start, min(start + _WRITE_ROWS, len(rows))))
            files = writer.close()
        except BaseException:
            writer.abort()
            raise
        self._written.extend((destination, file) for file in files)

    def entries(self) -> tuple[ManifestEntry, ...]:
        """What was written so far, as additions to the table."""
        return tuple(
            ManifestEntry(ADD, destination.partition, destination.bucket, self._buckets, file)
            for destination, file in self._written
        )

    def abort(self) -> None:
        """Forget what is buffered and delete what was written; a file that cannot be deleted becomes an orphan."""
        self._parts, self._bytes = [], 0
        for destination, file in self._written:
            with contextlib.suppress(PaimonError):
                self._metadata.storage.delete(f"{destination.directory}/{file.name}")
        self._written = []


def sequence_numbers(first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """``count`` consecutive sequence numbers."""
    return np.arange(first, first + count, dtype=np.int64)
