"""Scan: a read of one pinned snapshot with its columns and filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from paimon_spark.errors import InvalidInput, NotFound
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import KEEP_LONGER, Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.predicate import Predicate, parse_predicate
from paimon_spark.read.split import Split
from paimon_spark.read.split_reader import SplitReader


@dataclass(frozen=True)
class Scan:
    """A read of ``snapshot`` (None: a table without any), ``columns`` of ``schema`` in that order.

    Scans and their splits travel between processes. Planning happens when :attr:`splits` is first asked for.
    """

    metadata: TableMetadata
    table_schema: TableSchema
    snapshot: Snapshot | None
    columns: tuple[str, ...]
    predicate: Predicate | None = field(default=None)

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        schema: TableSchema,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        filters: Any,
    ) -> Scan:
        """A scan of those columns (all, when None) and filters (see :mod:`paimon_spark.predicate`).

        :raises InvalidInput: no column, an unknown or a repeated one, or a filter that does not fit
        """
        names = tuple(f.name for f in schema.fields) if columns is None else tuple(columns)
        if not names:
            raise InvalidInput("no column is selected; name one, or None for all, to count rows")
        for name in names:
            schema.field(name)
        if len(set(names)) != len(names):
            raise InvalidInput(f"a column is selected twice: {', '.join(names)}")
        return cls(metadata, schema, snapshot, names, parse_predicate(filters, schema.fields))

    @property
    def snapshot_id(self) -> int | None:
        """The pinned snapshot."""
        return None if self.snapshot is None else self.snapshot.id

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        return self._reader.arrow_schema

    @cached_property
    def splits(self) -> list[Split]:
        """What there is to read, cut into independent parts."""
        if self.snapshot is None:
            return []
        # Whoever reads splits need not plan them: workers do without manifests.
        from paimon_spark.read.plan import Planner

        with self.expiry_explained():
            return Planner(self.metadata, self.table_schema, self.predicate).splits(self.snapshot)

    def read_split(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of one split that satisfy the filter.

        :raises NotFound: a file is gone, because the snapshot has expired
        """
        with self.expiry_explained():
            yield from self._reader.read(split)

    @contextmanager
    def expiry_explained(self) -> Iterator[None]:
        """Who misses a file of this scan learns what became of the snapshot, and what to do."""
        try:
            yield
        except NotFound as missing:
            raise self.expired(str(missing)) from None

    @property
    def is_expired(self) -> bool:
        """Whether the snapshot is gone."""
        if self.snapshot_id is None:
            return True
        return not self.metadata.storage.exists(self.metadata.paths.snapshot_file(self.snapshot_id))

    def expired(self, missing: str) -> NotFound:
        """The error of a scan of which a file is gone: an expiry removes the snapshot first, then its files."""
        subject = f"snapshot {self.snapshot_id} of the table {self.metadata.paths.root}"
        if not self.is_expired:
            return NotFound(
                f"a file of {subject} is gone, although the snapshot is there: another engine is letting it expire, "
                f"so load the table again, or the table is damaged, which a check tells ({missing})"
            )
        return NotFound(
            f"{subject} has expired while it was read, and its files are being deleted: load the table again for the "
            f"newest rows. {KEEP_LONGER} ({missing})"
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of all splits, one split after another."""
        for split in self.splits:
            yield from self.read_split(split)

    @cached_property
    def _reader(self) -> SplitReader:
        return SplitReader(self.metadata, self.table_schema, self.columns, self.predicate)
