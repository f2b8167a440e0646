"""Schema evolution: the columns that a reader wants, out of a file that was written with an older schema.

A column is the column of the same field id in the schema that the file was written with; the file knows it by the
name that it had then. The members of ROW types are matched by id, too. What the old schema lacks is null, and what
had another type is cast (:mod:`paimon_spark.files.casts`).

Example: schema 0 ``(k INT id 0, a INT id 1, b INT id 2)``; then ``a`` is renamed to ``a2`` and becomes BIGINT, ``b``
is dropped, and another ``b`` (id 3) is added. Of a file of schema 0, ``a2`` is the file's ``a`` cast to BIGINT, and
``b`` is null.

Source: ``SchemaEvolutionUtil``, ``CastExecutors`` of Apache Paimon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.files.casts import cast_values
from paimon_spark.types import NESTED, DataField, DataType, arrow_type


@dataclass(frozen=True)
class ColumnSource:
    """Where a wanted column comes from: ``stored`` is the field of the file's schema with the same id, or None."""

    wanted: DataField
    stored: DataField | None

    def column(self, array: pa.Array) -> pa.Array:
        """The wanted column from what the file has for ``stored``.

        :raises UnsupportedFeature: its type changed in a way that cannot be followed
        """
        assert self.stored is not None
        return evolve(array, self.stored.type, self.wanted.type, self.wanted.name)

    @property
    def is_unchanged(self) -> bool:
        """Whether the stored values are the wanted values."""
        return self.stored is not None and same_values(self.stored.type, self.wanted.type)


def column_sources(wanted: Sequence[DataField], stored: Sequence[DataField]) -> list[ColumnSource]:
    """For each wanted field the stored field of the same id."""
    by_id = {field.id: field for field in stored}
    return [ColumnSource(field, by_id.get(field.id)) for field in wanted]


def refuse_misnamed(source: ColumnSource, names: Collection[str], known: Collection[str]) -> None:
    """Refuse to take the column of ``source`` for one that a file leaves out, and so for null, where a name is damaged.

    A column may be left out. But where ``names``, of all columns that are there, has one that is not ``known`` to the
    file's schema, or one twice, that is likelier the column itself.

    :raises ValueError: there is such a name
    """
    strange = sorted(name for name, count in Counter(names).items() if count > 1 or name not in known)
    if strange and source.stored is not None:
        raise ValueError(f"it has no column {source.stored.name}, but columns that it should not have: {strange}")


def same_values(stored: DataType, wanted: DataType) -> bool:
    """Whether values of ``stored`` need no change to be values of ``wanted``. Nullability is no difference."""
    if stored.root != wanted.root:
        return False
    if stored.root in NESTED:
        return stored.as_nullable() == wanted.as_nullable()
    if stored.root in ("VARCHAR", "VARBINARY"):
        return (stored.length or 0) <= (wanted.length or 0)
    return stored.as_nullable() == wanted.as_nullable()


def evolve(array: pa.Array, stored: DataType, wanted: DataType, column: str) -> pa.Array:
    """``array``, a file's values of type ``stored``, as ``arrow_type(wanted)``.

    Also levels the ways in which file formats hold one type: other units of time, other names of list elements.

    :raises UnsupportedFeature: the types cannot be converted
    """
    target = arrow_type(wanted)
    if stored.root in NESTED or wanted.root in NESTED:
        if array.type == target and same_values(stored, wanted):
            return array
        return _evolve_nested(array, stored, wanted, column)
    if array.type != arrow_type(stored):
        array = array.cast(arrow_type(stored))
    return array if same_values(stored, wanted) else cast_values(array, stored, wanted, column)


def _evolve_nested(array: pa.Array, stored: DataType, wanted: DataType, column: str) -> pa.Array:
    target = arrow_type(wanted)
    if stored.root != wanted.root:
        raise UnsupportedFeature(f"column {column}: its type was {stored} when a file was written and is {wanted} now")
    if wanted.root == "ROW":
        return _evolve_row(array, stored, wanted, column)
    if wanted.root == "ARRAY":
        children = [evolve(array.values, stored.element_type(), wanted.element_type(), column)]
    else:
        children = [_evolve_entries(array, stored, wanted, column)]
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), [validity, offsets], array.null_count, array.offset, children)


def _evolve_entries(array: pa.MapArray, stored: DataType, wanted: DataType, column: str) -> pa.StructArray:
    target = arrow_type(wanted)
    if wanted.root == "MAP":
        keys = evolve(array.keys, stored.key_type(), wanted.key_type(), column)
        items = evolve(array.items, stored.element_type(), wanted.element_type(), column)
    else:
        keys = evolve(array.keys, stored.element_type(), wanted.element_type(), column)
        items = array.items.cast(pa.int32())
    return pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])


def _evolve_row(array: pa.StructArray, stored: DataType, wanted: DataType, column: str) -> pa.StructArray:
    members = []
    for source in column_sources(wanted.fields, stored.fields):
        at = -1 if source.stored is None else array.type.get_field_index(source.stored.name)
        if at < 0:
            refuse_misnamed(source, [field.name for field in array.type], {field.name for field in stored.fields})
            members.append(pa.nulls(len(array), arrow_type(source.wanted.type)))
        else:
            assert source.stored is not None
            name = f"{column}.{source.wanted.name}"
            members.append(evolve(array.field(at), source.stored.type, source.wanted.type, name))
    return pa.StructArray.from_arrays(members, fields=list(arrow_type(wanted)), mask=array.is_null())
