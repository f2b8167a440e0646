"""Incoming rows: any Arrow data, matched to the table's columns by name, cast, checked and given row kinds.

Nothing is guessed: a column that the table does not have, a primary-key column that is missing, a type that does
not fit and a null where none may be are errors that name the column. Columns that the data does not carry are
null, which in a partial-update table means "unknown".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import strings, to_numpy
from paimon_spark.errors import InvalidInput
from paimon_spark.files.key_values import Int8Array, KeyValues
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import IGNORE_DELETE, IGNORE_UPDATE_BEFORE, ROWKIND_FIELD
from paimon_spark.types import MAX_LENGTH, NESTED, STRINGS, DataField, DataType, arrow_schema, arrow_type

_KIND_TEXTS = strings([b"+I", b"-U", b"+U", b"-D"], pa.string())
_UPDATE_BEFORE = 1

Test = Callable[[pa.DataType], bool]


def _is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow))


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _is_bytes(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(arrow)
        or pa.types.is_large_binary(arrow)
        or pa.types.is_fixed_size_binary(arrow)
        or pa.types.is_binary_view(arrow)
    )


def _is_whole(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow))


def _is_plain_timestamp(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) and arrow.tz is None)


def _is_zoned_timestamp(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) and arrow.tz is not None)


_WHOLE = dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _is_whole)
_ACCEPTS: Mapping[str, Test] = {
    **_WHOLE,
    "BOOLEAN": pa.types.is_boolean,
    "FLOAT": _is_number,
    "DOUBLE": _is_number,
    "DECIMAL": _is_number,
    "CHAR": _is_text,
    "VARCHAR": _is_text,
    "BINARY": _is_bytes,
    "VARBINARY": _is_bytes,
    "DATE": pa.types.is_date,
    "TIME": lambda arrow: pa.types.is_time(arrow) or pa.types.is_int32(arrow),
    "TIMESTAMP": _is_plain_timestamp,
    "TIMESTAMP_LTZ": _is_zoned_timestamp,
}


def _fits(arrow: pa.DataType, type_: DataType) -> bool:
    """Whether values of ``arrow`` may be cast to ``type_`` (each value is still checked when it is)."""
    if pa.types.is_null(arrow):
        return type_.nullable
    if pa.types.is_dictionary(arrow):
        return _fits(arrow.value_type, type_)
    if type_.root not in NESTED:
        return _ACCEPTS[type_.root](arrow)
    if type_.root == "ARRAY":
        is_list = pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow)
        return is_list and _fits(arrow.value_type, type_.element_type())
    if type_.root == "ROW":
        return pa.types.is_struct(arrow) and _members_fit(arrow, type_)
    if not pa.types.is_map(arrow):
        return False
    key = type_.key_type() if type_.root == "MAP" else type_.element_type()
    value_fits = (
        _is_whole(arrow.item_type) if type_.root == "MULTISET" else _fits(arrow.item_type, type_.element_type())
    )
    return _fits(arrow.key_type, key) and value_fits


def _members_fit(arrow: pa.StructType, type_: DataType) -> bool:
    names = [arrow.field(i).name for i in range(arrow.num_fields)]
    return names == [f.name for f in type_.fields] and all(
        _fits(arrow.field(i).type, f.type) for i, f in enumerate(type_.fields)
    )


def check_columns(schema: TableSchema, data: pa.Schema) -> None:
    """Refuse data that can never be written to the table, by its Arrow schema alone.

    :raises InvalidInput: every problem of the schema in one message
    """
    given = Counter(data.names)
    problems = [f"column {name!r} is there twice" for name, count in given.items() if count > 1]
    known = {f.name: f for f in schema.fields}
    for column in data:
        field = known.get(column.name)
        if field is None:
            problems.append(f"column {column.name!r} does not exist in the table (it has {', '.join(known)})")
        elif not _fits(column.type, field.type):
            problems.append(f"column {column.name!r} is {column.type}, which does not fit {field.type}; cast it first")
    keys = set(schema.primary_keys) | set(schema.partition_keys)
    for field in schema.fields:
        if field.name in given:
            continue
        if field.name in schema.primary_keys:
            problems.append(f"primary-key column {field.name!r} is missing")
        elif field.name not in keys and not field.type.nullable and field.default is None:
            problems.append(f"column {field.name!r} is NOT NULL and missing")
    rowkind = schema.options.get_option(ROWKIND_FIELD)
    if rowkind is not None and rowkind not in given:
        problems.append(f"column {rowkind!r} gives the row kind (option rowkind.field) and is missing")
    if problems:
        raise InvalidInput("the data does not fit the table: " + "; ".join(problems))


class Incoming:
    """Turns batches of one write into rows of the table."""

    def __init__(self, schema: TableSchema) -> None:
        self._fields = schema.fields
        self._arrow = arrow_schema(schema.fields)
        self._schema = schema
        self._rowkind = schema.options.get_option(ROWKIND_FIELD)
        self._ignore_delete = schema.options.get_option(IGNORE_DELETE)
        self._ignore_update_before = schema.options.get_option(IGNORE_UPDATE_BEFORE)
        self._checked: pa.Schema | None = None

    def rows(self, batch: pa.RecordBatch | pa.Table) -> KeyValues:
        """The batch's rows in their order, all table columns in schema order, without sequence numbers.

        Rows that ``ignore-delete`` or ``ignore-update-before`` drop are gone.

        :raises InvalidInput: the data does not fit the table
        """
        if self._checked is None or not batch.schema.equals(self._checked):
            check_columns(self._schema, batch.schema)
            self._checked = batch.schema
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        columns = [self._column(table, field) for field in self._fields]
        values = pa.Table.from_arrays(columns, schema=self._arrow)
        return self._without_ignored(KeyValues(values, None, self._kinds(values)))

    def columns(self, batch: pa.RecordBatch, fields: Sequence[DataField]) -> list[pa.ChunkedArray]:
        """Some columns as :meth:`rows` gives them, of a batch that need not have the others.

        :raises InvalidInput: the data does not fit the table
        """
        table = pa.Table.from_batches([batch])
        return [self._column(table, field) for field in fields]

    def _column(self, table: pa.Table, field: DataField) -> pa.ChunkedArray:
        target = arrow_type(field.type)
        position = table.schema.get_field_index(field.name)
        if position >= 0:
            column = _cast(table.column(position), target, field)
        else:
            column = pa.chunked_array([pa.nulls(table.num_rows, target)])
        if field.default is not None and column.null_count:
            column = column.fill_null(_default(field, target))
        if not field.type.nullable and column.null_count:
            raise InvalidInput(
                f"column {field.name!r} is {field.type} but has {column.null_count} null values in {len(column)} rows"
            )
        if _holds_text(field.type):
            _check_text(column, field)
        if field.type.root in STRINGS and (field.type.length or 0) < MAX_LENGTH:
            _check_length(column, field)
        return column

    def _kinds(self, values: pa.Table) -> Int8Array | None:
        if self._rowkind is None:
            return None
        texts = values.column(self._rowkind)
        kinds = pc.index_in(texts, value_set=_KIND_TEXTS)
        if kinds.null_count:
            wrong = texts.filter(pc.is_null(kinds))[0].as_py()
            raise InvalidInput(f"column {self._rowkind!r} (rowkind.field) holds {wrong!r}; it must be +I, -U, +U or -D")
        return to_numpy(kinds).astype(np.int8)

    def _without_ignored(self, rows: KeyValues) -> KeyValues:
        if rows.kind is None or not (self._ignore_delete or self._ignore_update_before):
            return rows
        dropped = (rows.kind & 1) == 1 if self._ignore_delete else rows.kind == _UPDATE_BEFORE
        return rows.take(np.flatnonzero(~dropped)) if dropped.any() else rows


def _cast(column: pa.ChunkedArray, target: pa.DataType, field: DataField) -> pa.ChunkedArray:
    if column.type == target:
        return column
    try:
        if pa.types.is_timestamp(target) and pa.types.is_timestamp(column.type):
            # A column's precision is what it keeps: finer digits are cut off, as everywhere in Paimon.
            unit_only = pa.timestamp(target.unit, column.type.tz)
            column = pc.floor_temporal(column, unit=_UNIT_NAMES[target.unit]).cast(unit_only)
        return column.cast(target)
    except pa.ArrowException as problem:
        raise InvalidInput(
            f"column {field.name!r}: a {column.type} value does not fit {field.type}: {problem}"
        ) from None


_UNIT_NAMES = {"ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _default(field: DataField, target: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(field.default).cast(target)
    except pa.ArrowException as problem:
        raise InvalidInput(
            f"column {field.name!r}: its default {field.default!r} is not a {field.type}: {problem}"
        ) from None


def _holds_text(type_: DataType) -> bool:
    inner = (type_.key, type_.element, *(f.type for f in type_.fields))
    return type_.root in STRINGS or any(_holds_text(t) for t in inner if t is not None)


def _check_text(column: pa.ChunkedArray, field: DataField) -> None:
    """Refuse texts that are not UTF-8, which Spark lets pass: readers would stumble over them, each in its own way."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as problem:
        raise InvalidInput(f"column {field.name!r}: a value is not UTF-8 text: {problem}") from None


def _check_length(column: pa.ChunkedArray, field: DataField) -> None:
    longest = pc.max(pc.utf8_length(column)).as_py()
    if longest is not None and longest > (field.type.length or 0):
        raise InvalidInput(f"column {field.name!r}: a value of {longest} characters does not fit {field.type}")
