"""Partial-update: the records of a key complete each other; null means "unknown", not "empty".

Without sequence groups every column takes the newest value that is not null. A sequence group's columns follow the
group's own order (see ``sequence_groups``); the columns outside all groups keep the rule of the newest value. What
retracts do to a key is settled first (see ``history``). Then each column is a choice of one row per key, and columns
that choose alike are gathered together. A key's only record is never touched, whatever its kind.

Source: ``PartialUpdateMergeFunction`` and ``ReducerMergeFunctionWrapper`` of Apache Paimon (1.4.1 and later).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import InvalidInput
from paimon_spark.files.key_values import DELETE, INSERT, Int64Array, KeyValues
from paimon_spark.merge.history import History, RetractRule, history
from paimon_spark.merge.key_groups import KeyGroups, kinds_or_none, pick_rows
from paimon_spark.merge.last_valid import LastValid
from paimon_spark.merge.sequence_groups import MergeGroup, Tuples
from paimon_spark.merge.user_sequence import UserSequence
from paimon_spark.types import DataField


@dataclass(frozen=True)
class PartialUpdate:
    """The merge engine ``partial-update``.

    ``fields``: the table's columns, in order. With ``groups``, ``remove_on_delete`` has no effect.
    """

    fields: tuple[DataField, ...]
    groups: tuple[MergeGroup, ...] = ()
    user_sequence: UserSequence | None = None
    ignore_delete: bool = False
    remove_on_delete: bool = False

    def required_columns(self, wanted: Collection[str]) -> frozenset[str]:
        """The columns that have to be read, besides the key, to merge ``wanted``.

        These are ``wanted``, the columns of ``sequence.field``, the sequence columns of every group that has one of
        those, and the sequence columns of the groups whose deletes remove whole rows.
        """
        needed = set(wanted)
        if self.user_sequence is not None:
            needed |= self.user_sequence.names
        for group in self.groups:
            if group.removes or not group.columns.isdisjoint(needed):
                needed.update(group.sequence_names)
        return frozenset(needed)

    def merge(self, rows: KeyValues, groups: KeyGroups) -> KeyValues:
        """One row a key, in key order.

        Requires: the columns that :meth:`required_columns` names for those that are there.

        :raises InvalidInput: a retract that no option allows, or a null in a NOT NULL column
        """
        newest = groups.order[groups.last]
        if groups.all_single:
            merged = pick_rows(rows, newest)
            return KeyValues(merged.values, merged.sequence, kinds_or_none(merged.kind))
        numbers, several = groups.multiple()
        tuples = self._tuples(rows.values, several)
        listed = [t for group, t in tuples.items() if group.removes]
        rule = RetractRule(self.ignore_delete, bool(self.groups), self.remove_on_delete)
        past = history(rows, several, rule, listed)
        self._check_not_null(rows.values, past.copied)
        gathered: dict[str, pa.ChunkedArray] = {}
        for names, picks in _alike(_choices(rows.values, past, tuples)):
            indices = newest.copy()
            indices[numbers] = picks
            taken = rows.values.select(names).take(_nullable(indices))
            gathered.update(zip(names, taken.columns, strict=True))
        schema = rows.values.schema
        values = pa.Table.from_arrays([gathered[name] for name in schema.names], schema=schema)
        return _with_outcome(values, rows, newest, numbers, past)

    def _tuples(self, values: pa.Table, several: KeyGroups) -> dict[MergeGroup, Tuples]:
        """The tuples of the groups that have a column here."""
        present = set(values.column_names)
        return {
            group: group.tuples(values, several.order)
            for group in self.groups
            if group.removes or not group.columns.isdisjoint(present)
        }

    def _check_not_null(self, values: pa.Table, copied: Int64Array) -> None:
        for field in self.fields:
            if field.type.nullable or field.name not in values.column_names:
                continue
            column = values.column(field.name)
            if column.null_count and (nulls := column.take(to_arrow(copied)).null_count):
                raise InvalidInput(
                    f"column {field.name!r} is {field.type} but is null in {nulls} records to be merged; "
                    "write a value in every record, or make the column nullable"
                )


def _choices(values: pa.Table, past: History, tuples: dict[MergeGroup, Tuples]) -> Iterator[tuple[str, Int64Array]]:
    """For each column the row of each key that its value comes from; -1 for null."""
    grouped: set[str] = set()
    for group, of_group in tuples.items():
        ordering, guarded = _group_choice(past, of_group)
        grouped |= group.columns
        yield from ((name, ordering) for name in group.sequence_names)
        yield from ((name, guarded) for name in group.protected if name in values.column_names)
    search = LastValid(past.adds)
    for name in values.column_names:
        if name not in grouped:
            yield name, search.rows(values.column(name))


def _group_choice(past: History, tuples: Tuples) -> tuple[Int64Array, Int64Array]:
    """The rows that a group's sequence columns and its protected columns come from; -1 for null."""
    winners = tuples.winners(past.records, past.acting)
    decided = np.where(winners >= 0, winners, past.base)
    ordering = np.where(decided >= 0, past.records.order[decided], -1)
    if past.emptying is None:
        return ordering, ordering
    emptied = (winners >= 0) & past.emptying[winners]
    return ordering, np.where(emptied, -1, ordering)


def _alike(choices: Iterator[tuple[str, Int64Array]]) -> list[tuple[list[str], Int64Array]]:
    """The columns whose choice is the same object, together."""
    found: dict[int, tuple[list[str], Int64Array]] = {}
    for name, picks in choices:
        found.setdefault(id(picks), ([], picks))[0].append(name)
    return list(found.values())


def _nullable(indices: Int64Array) -> pa.Array:
    """The indices with null for negative ones."""
    there = indices >= 0
    return to_arrow(indices, None if there.all() else there)


def _with_outcome(
    values: pa.Table, rows: KeyValues, newest: Int64Array, numbers: Int64Array, past: History
) -> KeyValues:
    """The merged values with their sequence numbers and kinds."""
    sequence = kind = None
    if rows.sequence is not None:
        sequence = rows.sequence[newest]
        sequence[numbers] = np.where(past.newest >= 0, rows.sequence[past.newest], 0)
    if rows.kind is not None:
        kind = rows.kind[newest]
        kind[numbers] = np.where(past.removed, DELETE, INSERT)
    return KeyValues(values, sequence, kinds_or_none(kind))
