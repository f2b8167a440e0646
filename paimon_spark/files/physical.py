"""The physical columns of a data file::

    _KEY_<pk1> … _KEY_<pkn>   trimmed primary key, in its order     field id 1073741823 + id of the column
    _SEQUENCE_NUMBER          BIGINT NOT NULL                       2147483646
    _VALUE_KIND               TINYINT NOT NULL                      2147483645
    all columns of the table  in schema order                      their own ids

Thin files lack the ``_KEY_`` columns. Elements of collections have ids derived from the column's: the element of an
ARRAY, and the value of a MAP, 536870911 + 1024 · id + depth; the key of a MAP 536870911 - 1024 · id - depth; depth
counts the collections below the column, from 1.

Source: ``KeyValue.schema``, ``SpecialFields`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.files.key_values import KeyValues
from paimon_spark.types import FIELD_ID, DataField, DataType, arrow_type

KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"

_KEY_ID_BASE = 1073741823
_SEQUENCE_ID = 2147483646
_KIND_ID = 2147483645
_COLLECTION_ID_BASE = 536870911
_IDS_PER_COLUMN = 1024


def physical_schema(fields: Sequence[DataField], key_fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of a data file, with field ids. ``key_fields`` is empty for a thin file."""
    keys = [_field(KEY_PREFIX + f.name, f.type.not_null(), _KEY_ID_BASE + f.id) for f in key_fields]
    system = [
        pa.field(SEQUENCE_NUMBER, pa.int64(), False, {FIELD_ID: str(_SEQUENCE_ID)}),
        pa.field(VALUE_KIND, pa.int8(), False, {FIELD_ID: str(_KIND_ID)}),
    ]
    return pa.schema([*keys, *system, *(_field(f.name, f.type, f.id) for f in fields)])


def physical_table(
    rows: KeyValues, fields: Sequence[DataField], key_fields: Sequence[DataField], schema: pa.Schema
) -> pa.Table:
    """The rows as the columns of ``schema``, which is :func:`physical_schema` of the same fields."""
    assert rows.sequence is not None
    kind = np.zeros(len(rows), np.int8) if rows.kind is None else rows.kind
    values = rows.values
    keys = [values.column(f.name) for f in key_fields]
    return pa.Table.from_arrays(
        [*keys, to_arrow(rows.sequence), to_arrow(kind), *(values.column(f.name) for f in fields)], schema=schema
    )


def leaf_columns(fields: Iterable[pa.Field], parent: str = "") -> Iterator[tuple[str, str]]:
    """Every parquet leaf of the columns as (column, dotted path), in file order."""
    for field in fields:
        yield from ((field.name, path) for path in _leaves(field, field.name))


def _leaves(field: pa.Field, path: str) -> Iterator[str]:
    type_ = field.type
    if pa.types.is_map(type_):
        yield from _leaves(type_.key_field, f"{path}.key_value.key")
        yield from _leaves(type_.item_field, f"{path}.key_value.value")
    elif pa.types.is_list(type_):
        yield from _leaves(type_.value_field, f"{path}.list.element")
    elif pa.types.is_struct(type_):
        for i in range(type_.num_fields):
            yield from _leaves(type_.field(i), f"{path}.{type_.field(i).name}")
    else:
        yield path


def _field(name: str, type_: DataType, id_: int) -> pa.Field:
    return pa.field(name, _with_ids(type_, id_, 1), type_.nullable, {FIELD_ID: str(id_)})


def _with_ids(type_: DataType, id_: int, depth: int) -> pa.DataType:
    """``arrow_type(type_)`` with field ids on all members and elements."""
    up = _COLLECTION_ID_BASE + _IDS_PER_COLUMN * id_ + depth
    down = _COLLECTION_ID_BASE - _IDS_PER_COLUMN * id_ - depth
    if type_.root == "ROW":
        return pa.struct([_field(f.name, f.type, f.id) for f in type_.fields])
    if type_.root == "ARRAY":
        return pa.list_(_element("element", type_.element_type(), up, id_, depth))
    if type_.root in ("MAP", "MULTISET"):
        key = type_.key_type() if type_.root == "MAP" else type_.element_type()
        value = type_.element_type() if type_.root == "MAP" else DataType("INT", nullable=False)
        return pa.map_(_element("key", key.not_null(), down, id_, depth), _element("value", value, up, id_, depth))
    return arrow_type(type_)


def _element(name: str, type_: DataType, own_id: int, column_id: int, depth: int) -> pa.Field:
    return pa.field(name, _with_ids(type_, column_id, depth + 1), type_.nullable, {FIELD_ID: str(own_id)})
