"""Deduplicate: the newest record of a key is the row; if it is a retract, the row is deleted.

Source: ``DeduplicateMergeFunction`` and ``ReducerMergeFunctionWrapper`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.key_groups import KeyGroups, kinds_or_none, pick_rows
from paimon_spark.merge.user_sequence import UserSequence


@dataclass(frozen=True)
class Deduplicate:
    """The merge engine ``deduplicate``; ``ignore_delete`` makes it skip stored retracts."""

    user_sequence: UserSequence | None = None
    ignore_delete: bool = False

    def required_columns(self, wanted: Collection[str]) -> frozenset[str]:
        """The columns that have to be read, besides the key, to merge ``wanted``: these and ``sequence.field``."""
        sequence = frozenset[str]() if self.user_sequence is None else self.user_sequence.names
        return sequence.union(wanted)

    def merge(self, rows: KeyValues, groups: KeyGroups) -> KeyValues:
        """The newest record of each key as it is, in key order.

        With ``ignore_delete`` it is the newest add, and a key that has several records but no add is gone. A key's
        only record is never touched.
        """
        picks = groups.last
        if self.ignore_delete and not groups.all_single:
            retract = rows.is_retract()
            if retract is not None:
                newest_add = groups.newest(~retract[groups.order] | groups.spread(groups.counts == 1))
                picks = newest_add[newest_add >= 0]
        merged = pick_rows(rows, groups.order[picks])
        return replace(merged, kind=kinds_or_none(merged.kind))
