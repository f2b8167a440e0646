"""A merge engine that works record by record on plain dictionaries: slow, and easy to hold against the semantics.

The columnar engines never carry state from one record of a key to the next; this one does nothing else. It knows
nothing of Arrow, NumPy or normalised keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from itertools import groupby
from typing import Any

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

Row = dict[str, Any]


class Refused(Exception):
    """The records contradict the table's definition."""


@dataclass(frozen=True)
class Record:
    """One record: its values, its sequence number and its kind."""

    values: Row
    sequence: int
    kind: int = INSERT

    @property
    def retract(self) -> bool:
        return self.kind in (UPDATE_BEFORE, DELETE)


@dataclass(frozen=True)
class Group:
    """A sequence group; ``removes`` when it is listed in remove-record-on-sequence-group."""

    sequence: tuple[str, ...]
    protected: tuple[str, ...]
    removes: bool = False


@dataclass(frozen=True)
class Table:
    """What the engines have to know of a table."""

    columns: tuple[str, ...]
    key: tuple[str, ...] = ("k",)
    engine: str = "partial-update"
    sequence_field: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False
    remove_on_delete: bool = False
    groups: tuple[Group, ...] = ()
    not_null: frozenset[str] = field(default_factory=frozenset)


# --------------------------------------------------------------------------- order


def compare_values(a: Any, b: Any) -> int:
    """Null before every value."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    return int(a > b) - int(a < b)


def compare_tuples(a: Sequence[Any], b: Sequence[Any], descending: bool = False) -> int:
    """Left to right; ``descending`` turns values round, but not null."""
    for x, y in zip(a, b, strict=True):
        result = compare_values(x, y)
        if result:
            return -result if descending and x is not None and y is not None else result
    return 0


def compare_age(table: Table, a: Record, b: Record) -> int:
    """Negative when ``a`` comes before ``b`` in the merge order of their key."""
    by_user = compare_tuples(
        [a.values[c] for c in table.sequence_field], [b.values[c] for c in table.sequence_field], table.descending
    )
    if by_user:
        return by_user
    if a.sequence != b.sequence:
        return -1 if a.sequence < b.sequence else 1
    return int(b.retract) - int(a.retract)


# --------------------------------------------------------------------------- merging


def merge(table: Table, records: Sequence[Record]) -> list[Record]:
    """The merged records in key order; ``records`` in the order in which they were written."""

    def key(record: Record) -> tuple[Any, ...]:
        return tuple(record.values[c] for c in table.key)

    result = []
    for _, of_key in groupby(sorted(records, key=key), key):
        ordered = sorted(of_key, key=cmp_to_key(lambda a, b: compare_age(table, a, b)))
        merged = ordered[0] if len(ordered) == 1 else merge_key(table, ordered)
        if merged is not None:
            result.append(merged)
    return result


def merge_key(table: Table, records: Sequence[Record]) -> Record | None:
    """The records of one key, of which there are several, oldest first."""
    if table.engine == "deduplicate":
        kept = [r for r in records if not (table.ignore_delete and r.retract)]
        return kept[-1] if kept else None
    machine = PartialUpdateMachine(table)
    for record in records:
        machine.process(record)
    return machine.result()


class PartialUpdateMachine:
    """The state of one key of a partial-update table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.row: Row = dict.fromkeys(table.columns)
        self.sequence = 0
        self.met_add = False
        self.delete_row = False
        self.seen = False

    def process(self, record: Record) -> None:
        self.delete_row = False
        if record.retract:
            self.retract(record)
        else:
            self.add(record)
        self.seen = True

    def result(self) -> Record:
        kind = DELETE if self.delete_row or not self.met_add else INSERT
        return Record(self.row, self.sequence, kind)

    def copy(self, values: Mapping[str, Any]) -> None:
        """The whole row becomes ``values``."""
        for column in self.table.columns:
            if column in self.table.not_null and values[column] is None:
                raise Refused(column)
        self.row = {column: values[column] for column in self.table.columns}

    # ------------------------------------------------------------------ retracts

    def retract(self, record: Record) -> None:
        if not self.seen:
            self.copy(record.values)
        if self.table.ignore_delete:
            return
        self.sequence = record.sequence
        if self.table.groups:
            self.retract_groups(record)
        elif self.table.remove_on_delete:
            if record.kind == DELETE:
                self.delete_row = True
                self.copy(record.values)
        else:
            raise Refused("retract")

    def retract_groups(self, record: Record) -> None:
        for group in self.table.groups:
            if not self.takes_over(record, group):
                continue
            if record.kind == DELETE and group.removes:
                self.delete_row = True
                self.copy(record.values)
                return
            self.set(group.sequence, record)
            for column in group.protected:
                self.row[column] = None

    def takes_over(self, record: Record, group: Group) -> bool:
        """Whether the record takes part in the group and is not older than the row."""
        new = [record.values[c] for c in group.sequence]
        if all(v is None for v in new):
            return False
        return compare_tuples(new, [self.row[c] for c in group.sequence]) >= 0

    def set(self, columns: Sequence[str], record: Record) -> None:
        for column in columns:
            self.row[column] = record.values[column]

    # ------------------------------------------------------------------ adds

    def add(self, record: Record) -> None:
        self.sequence = record.sequence
        self.met_add = True
        grouped = {c for g in self.table.groups for c in (*g.sequence, *g.protected)}
        for column in self.table.columns:
            value = record.values[column]
            if column in grouped:
                continue
            if value is not None:
                self.row[column] = value
            elif column in self.table.not_null and not self.table.groups:
                raise Refused(column)
        for group in self.table.groups:
            if self.takes_over(record, group):
                self.set(group.sequence, record)
                self.set(group.protected, record)
