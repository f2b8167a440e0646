"""Sequence groups: columns of a partial-update table that are ordered by sequence columns of their own.

``fields.<s1>,<s2>.sequence-group = <c1>,<c2>`` makes (s1, s2) the *tuple* that protects c1 and c2: a record changes
the group only if its tuple is not older than the row's. Tuples compare left to right, null first; a record whose
tuple is all null does not take part in the group.

So a record that takes part sets the whole group when no record before it had a greater tuple, and the group's final
values are those of one record, its *winner*: of the records with the greatest tuple the newest. No state has to be
carried from record to record:

    records in order (s, v)          (2, a)  (1, b)  (null, c)  (2, null)  (1, d)
    takes part                         yes     yes      no         yes       yes
    greatest tuple, newest of them                                  *                → (2, null)

Deletes that remove the row (``partial-update.remove-record-on-sequence-group``) are the one thing that needs the
state *before* a record: a -D removes the row when its tuple in a listed group is not older than the row's at that
moment. The row then starts anew from the delete's values, the tuples of all groups included. A -D whose tuple is as
great as all before it in the key removes for certain, because the row's tuple never exceeds them. While one group is
listed there are no others: its own tuple never goes down, since a removing delete has the greatest. With several
listed groups a removal through one may lower another's tuple, so the records behind each removal found so far are
looked at once more as a stretch of their own, until a round finds none. A stretch's first removal is always certain.

Source: ``PartialUpdateMergeFunction`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import is_valid, to_arrow
from paimon_spark.files.key_values import Int64Array
from paimon_spark.merge.key_groups import BoolArray, KeyGroups
from paimon_spark.merge.keys import normalize_sequence
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import REMOVE_RECORD_ON_SEQUENCE_GROUP
from paimon_spark.types import DataField

_OLDEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class MergeGroup:
    """A sequence group. ``sequence``: the tuple's columns. ``protected``: names of the columns it guards.

    ``removes``: whether a -D that is not older than the row removes the whole row.
    """

    sequence: tuple[DataField, ...]
    protected: tuple[str, ...]
    removes: bool = False

    @property
    def sequence_names(self) -> tuple[str, ...]:
        """The names of the tuple's columns."""
        return tuple(f.name for f in self.sequence)

    @property
    def columns(self) -> frozenset[str]:
        """All columns of the group."""
        return frozenset((*self.sequence_names, *self.protected))

    def tuples(self, values: pa.Table, order: Int64Array) -> Tuples:
        """The tuples of the rows ``order``, in that order."""
        columns = [values.column(name).take(to_arrow(order)) for name in self.sequence_names]
        known = np.zeros(len(order), np.bool_)
        for column in columns:
            known |= is_valid(column)
        return Tuples(normalize_sequence(columns, [f.type for f in self.sequence], False), known)


@dataclass(frozen=True)
class Tuples:
    """One group's tuples by position: their ``age`` (greater is newer) and whether they are ``known`` (not all null).

    Tuples that are not known have an age below all that are.
    """

    age: Int64Array
    known: BoolArray

    def winners(self, groups: KeyGroups, eligible: BoolArray | None) -> Int64Array:
        """Position of each key's winner among the eligible records that take part; -1 where there is none."""
        candidates = self.known if eligible is None else self.known & eligible
        age = self.age if candidates.all() else np.where(candidates, self.age, _OLDEST)
        greatest = groups.spread(groups.greatest(age))
        return groups.newest(candidates & (age == greatest))

    def at(self, positions: BoolArray) -> Tuples:
        """The tuples at those positions."""
        return Tuples(self.age[positions], self.known[positions])

    def not_older(self, groups: KeyGroups) -> BoolArray:
        """Which records take part with a tuple as great as all that came before them in their key."""
        _, rank = np.unique(self.age, return_inverse=True)
        # Raising every key's ranks above those of the key before makes one running maximum serve all keys.
        raised = rank + groups.spread(np.arange(len(groups))) * len(rank)
        reached: BoolArray = self.known & (raised >= np.maximum.accumulate(raised))
        return reached


def removals(groups: KeyGroups, deletes: BoolArray, listed: Sequence[Tuples]) -> BoolArray:
    """At which positions a -D (``deletes``) removes the row through one of the ``listed`` groups.

    Requires: every retract takes part in the groups (``ignore-delete`` is off).
    """
    active = deletes & np.logical_or.reduce([t.known for t in listed])
    result = np.zeros(len(groups.order), np.bool_)
    stretches, positions = groups, np.arange(len(groups.order))
    scope = stretches.spread(stretches.any(active))
    while scope.any():
        stretches, positions, active = stretches.keep(scope), positions[scope], active[scope]
        listed = [t.at(scope) for t in listed]
        removing = active & np.logical_or.reduce([t.not_older(stretches) for t in listed])
        result[positions[removing]] = True
        active = active & ~removing
        begins = removing.copy()
        begins[stretches.starts] = True
        stretches = KeyGroups(stretches.order, np.flatnonzero(begins))
        anew = removing[stretches.starts] & stretches.any(active) & (len(listed) > 1)
        scope = stretches.spread(anew)
    return result


def merge_groups(schema: TableSchema) -> tuple[MergeGroup, ...]:
    """The table's sequence groups.

    Requires: no column has two roles in groups, as ``metadata.validation`` and ``metadata.unsupported`` see to.

    :raises InvalidInput: an unknown sequence column
    """
    listed = schema.options.get_option(REMOVE_RECORD_ON_SEQUENCE_GROUP)
    return tuple(
        MergeGroup(
            tuple(schema.field(name) for name in group.sequence),
            group.protected,
            not set(listed).isdisjoint(group.sequence),
        )
        for group in schema.sequence_groups
    )
