"""Overwrite: replacing partitions, or the whole table, in one snapshot.

A static overwrite replaces the partitions that match a specification (all, when it is empty), also by nothing; rows
outside of it are refused. A dynamic overwrite replaces exactly the partitions that the new rows fall into.

New files that overlap no other of their bucket are committed at the highest level (``overwrite-upgrade``), so that
readers need not merge them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paimon_spark.errors import InvalidInput
from paimon_spark.merge.sections import file_key_ranges, sections
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.partition_specification import covers
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.options import OVERWRITE_UPGRADE
from paimon_spark.rows.binary_row import decode


@dataclass(frozen=True)
class Overwrite:
    """What an overwrite replaces: the partitions of the new rows (``dynamic``), or those that have all the values of
    ``partition`` (column → value, None for null)."""

    dynamic: bool = False
    partition: Mapping[str, Any] = field(default_factory=dict)

    def commit(
        self,
        committer: Committer,
        schema: TableSchema,
        entries: Sequence[ManifestEntry],
        identifier: int,
        known_maximum: tuple[int, int],
    ) -> Snapshot | None:
        """Replace the scope by the new files; None when a dynamic overwrite has no new files.

        :raises InvalidInput: a new row is outside of the static specification
        """
        touched = {entry.partition for entry in entries}
        if self.dynamic and schema.partition_keys:
            if not touched:
                return None
            return committer.overwrite(upgraded(schema, entries), touched.__contains__, identifier, known_maximum)
        if outside := [p for p in touched if not self.covers(schema, p)]:
            columns = decode(outside[:1], [f.type for f in schema.partition_fields])
            values = {f.name: c[0].as_py() for f, c in zip(schema.partition_fields, columns, strict=True)}
            raise InvalidInput(f"a row of partition {values} is outside of the overwritten partition {self.partition}")
        return committer.overwrite(
            upgraded(schema, entries), lambda p: self.covers(schema, p), identifier, known_maximum
        )

    def covers(self, schema: TableSchema, partition: bytes) -> bool:
        """Whether the partition (a serialized BinaryRow) is replaced by a static overwrite."""
        return covers(schema, self.partition, partition)


def upgraded(schema: TableSchema, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The new files at the highest level, in the buckets where no two of them overlap.

    Source: ``FileStoreCommitImpl.tryUpgrade``.
    """
    if not schema.options.get_option(OVERWRITE_UPGRADE):
        return list(entries)
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        buckets[entry.partition, entry.bucket].append(entry)
    types = [f.type for f in schema.key_fields]
    top = schema.options.num_levels - 1
    result: list[ManifestEntry] = []
    for members in buckets.values():
        mins, maxs = file_key_ranges([e.file for e in members], types)
        disjoint = len(sections(mins, maxs)) == len(members) and bool(np.all([e.file.level == 0 for e in members]))
        result.extend(replace(e, file=e.file.at_level(top)) if disjoint else e for e in members)
    return result
