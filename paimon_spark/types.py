"""Paimon's logical types: their JSON in schema files and their Arrow counterpart.

A type is a JSON string such as ``"DECIMAL(10, 2) NOT NULL"`` when it is atomic, and a JSON object such as
``{"type": "ARRAY", "element": "INT"}`` when it is built from others. Field ids belong to columns and to the
members of ROW types; collection elements have none.

Source: ``org.apache.paimon.types`` (DataTypeJsonParser, DataTypes) of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from paimon_spark.errors import InvalidInput, UnsupportedFeature

MAX_LENGTH = 2**31 - 1
FIELD_ID = b"PARQUET:field_id"

INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
STRINGS = frozenset({"CHAR", "VARCHAR"})
BINARIES = frozenset({"BINARY", "VARBINARY"})
TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})
NESTED = frozenset({"ARRAY", "MAP", "MULTISET", "ROW"})
_REFUSED = frozenset({"VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"})


@dataclass(frozen=True)
class DataType:
    """One Paimon type.

    ``root`` is the canonical keyword: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, CHAR,
    VARCHAR (STRING is VARCHAR of the greatest length), BINARY, VARBINARY (BYTES likewise), DATE, TIME,
    TIMESTAMP, TIMESTAMP_LTZ, ARRAY, MAP, MULTISET or ROW. ``length`` is set for the character and binary
    types, ``precision`` for DECIMAL, TIME and timestamps, ``scale`` for DECIMAL, ``key`` for MAP, ``element``
    for ARRAY and MULTISET and for the values of a MAP, ``fields`` for ROW.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    key: DataType | None = None
    element: DataType | None = None
    fields: tuple[DataField, ...] = ()

    def not_null(self) -> DataType:
        """This type, NOT NULL."""
        return replace(self, nullable=False)

    def as_nullable(self) -> DataType:
        """This type, nullable."""
        return replace(self, nullable=True)

    def element_type(self) -> DataType:
        """The element of an ARRAY or MULTISET, or the value of a MAP."""
        assert self.element is not None
        return self.element

    def key_type(self) -> DataType:
        """The key of a MAP."""
        assert self.key is not None
        return self.key

    def __str__(self) -> str:
        if self.root in NESTED:
            inner = {
                "ARRAY": lambda: str(self.element),
                "MULTISET": lambda: str(self.element),
                "MAP": lambda: f"{self.key}, {self.element}",
                "ROW": lambda: ", ".join(f"{f.name} {f.type}" for f in self.fields),
            }[self.root]()
            return f"{self.root}<{inner}>{'' if self.nullable else ' NOT NULL'}"
        return str(type_to_json(self))


@dataclass(frozen=True)
class DataField:
    """A column of a table or a member of a ROW type; ``id`` never changes and is never reused."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


# --------------------------------------------------------------------------- JSON

_ATOMIC = re.compile(
    r"\s*(?P<name>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\(\s*(?P<args>\d+(?:\s*,\s*\d+)?)\s*\))?"
    r"(?P<zone>\s+WITH\s+LOCAL\s+TIME\s+ZONE|\s+WITHOUT\s+TIME\s+ZONE)?(?P<notnull>\s+NOT\s+NULL|\s+NULL)?\s*$",
    re.IGNORECASE,
)
_SYNONYMS = {"INTEGER": "INT", "DOUBLE PRECISION": "DOUBLE", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_PLAIN = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE"})


def parse_type(json: Any) -> DataType:
    """The type that a schema file's JSON value names.

    :raises UnsupportedFeature: a type this package does not read (VARIANT, BLOB, VECTOR, GEOMETRY, GEOGRAPHY)
    :raises InvalidInput: not a type
    """
    if isinstance(json, str):
        return _parse_atomic(json)
    if not isinstance(json, dict) or not isinstance(json.get("type"), str):
        raise InvalidInput(f"not a Paimon type: {json!r}")
    keyword = json["type"].upper()
    nullable = "NOT NULL" not in keyword
    root = keyword.split()[0]
    try:
        if root in ("ARRAY", "MULTISET"):
            return DataType(root, nullable, element=parse_type(json["element"]))
        if root == "MAP":
            return DataType(root, nullable, key=parse_type(json["key"]), element=parse_type(json["value"]))
        if root == "ROW":
            return DataType(root, nullable, fields=parse_fields(json["fields"]))
    except KeyError as missing:
        raise InvalidInput(f"type {json!r} lacks {missing}") from None
    if root in _REFUSED:
        raise UnsupportedFeature(f"columns of type {root} are not supported")
    raise InvalidInput(f"not a Paimon type: {json!r}")


def parse_fields(json: Iterable[Any]) -> tuple[DataField, ...]:
    """The fields of a schema file or of a ROW type."""
    return tuple(
        DataField(int(f["id"]), f["name"], parse_type(f["type"]), f.get("description"), f.get("defaultValue"))
        for f in json
    )


def _parse_atomic(text: str) -> DataType:
    match = _ATOMIC.match(text)
    if match is None:
        raise InvalidInput(f"not a Paimon type: {text!r}")
    name = " ".join(match["name"].upper().split())
    name = _SYNONYMS.get(name, name)
    args = [int(a) for a in match["args"].split(",")] if match["args"] else []
    nullable = match["notnull"] is None or "NOT" not in match["notnull"].upper()
    if name == "TIMESTAMP" and match["zone"] and "LOCAL" in match["zone"].upper():
        name = "TIMESTAMP_LTZ"
    return _atomic(name, args, nullable, text)


def _atomic(name: str, args: list[int], nullable: bool, text: str) -> DataType:
    first = args[0] if args else None
    if name in _PLAIN:
        return DataType(name, nullable)
    if name in ("STRING", "BYTES"):
        return DataType("VARCHAR" if name == "STRING" else "VARBINARY", nullable, length=MAX_LENGTH)
    if name in STRINGS or name in BINARIES:
        return DataType(name, nullable, length=1 if first is None else first)
    if name == "DECIMAL":
        precision, scale = [*args, 0][:2] if args else (10, 0)
        return DataType(name, nullable, precision=precision, scale=scale)
    if name == "TIME":
        return DataType(name, nullable, precision=0 if first is None else first)
    if name in TIMESTAMPS:
        return DataType(name, nullable, precision=6 if first is None else first)
    if name in _REFUSED:
        raise UnsupportedFeature(f"columns of type {name} are not supported")
    raise InvalidInput(f"not a Paimon type: {text!r}")


def type_to_json(type_: DataType) -> Any:
    """The JSON value that Java writes for ``type_``."""
    suffix = "" if type_.nullable else " NOT NULL"
    root = type_.root
    if root in NESTED:
        json: dict[str, Any] = {"type": root + suffix}
        if root == "ROW":
            json["fields"] = fields_to_json(type_.fields)
        elif root == "MAP":
            json["key"] = type_to_json(type_.key_type())
            json["value"] = type_to_json(type_.element_type())
        else:
            json["element"] = type_to_json(type_.element_type())
        return json
    if root in ("VARCHAR", "VARBINARY") and type_.length == MAX_LENGTH:
        return ("STRING" if root == "VARCHAR" else "BYTES") + suffix
    if type_.length is not None:
        return f"{root}({type_.length}){suffix}"
    if root == "DECIMAL":
        return f"DECIMAL({type_.precision}, {type_.scale}){suffix}"
    if root == "TIMESTAMP_LTZ":
        return f"TIMESTAMP({type_.precision}) WITH LOCAL TIME ZONE{suffix}"
    if type_.precision is not None:
        return f"{root}({type_.precision}){suffix}"
    return root + suffix


def fields_to_json(fields: Iterable[DataField]) -> list[dict[str, Any]]:
    """The JSON of columns or ROW members."""
    result = []
    for field in fields:
        json = {"id": field.id, "name": field.name, "type": type_to_json(field.type)}
        if field.description is not None:
            json["description"] = field.description
        if field.default is not None:
            json["defaultValue"] = field.default
        result.append(json)
    return result


# --------------------------------------------------------------------------- Arrow

_ARROW_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
}


def timestamp_unit(precision: int) -> str:
    """The Arrow unit that holds a timestamp of ``precision`` digits: ms up to 3, us up to 6, ns up to 9."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that columns of ``type_`` have everywhere in this package."""
    root = type_.root
    if root in _ARROW_PLAIN:
        return _ARROW_PLAIN[root]
    if root == "DECIMAL":
        return pa.decimal128(type_.precision, type_.scale)
    if root in TIMESTAMPS:
        assert type_.precision is not None
        return pa.timestamp(timestamp_unit(type_.precision), "UTC" if root == "TIMESTAMP_LTZ" else None)
    if root == "ARRAY":
        return pa.list_(_arrow_child("element", type_.element_type()))
    if root == "MAP":
        return pa.map_(arrow_type(type_.key_type()), _arrow_child("value", type_.element_type()))
    if root == "MULTISET":
        return pa.map_(arrow_type(type_.element_type()), pa.field("value", pa.int32(), nullable=False))
    return pa.struct([arrow_field(f) for f in type_.fields])


def _arrow_child(name: str, type_: DataType) -> pa.Field:
    return pa.field(name, arrow_type(type_), nullable=type_.nullable)


def arrow_field(field: DataField) -> pa.Field:
    """The Arrow field of a column: its name, Arrow type and nullability."""
    return pa.field(field.name, arrow_type(field.type), nullable=field.type.nullable)


def arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """The Arrow schema of ``fields``, in their order."""
    return pa.schema([arrow_field(f) for f in fields])


_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_date32, "DATE"),
)


class FieldIds:
    """Hands out field ids in declaration order, a ROW's members right after the ROW itself."""

    def __init__(self, first: int = 0) -> None:
        self.next = first

    def field(self, name: str, arrow: pa.DataType, nullable: bool) -> DataField:
        """A new field of the Paimon type that fits ``arrow``."""
        own = self.next
        self.next += 1
        return DataField(own, name, self._type(arrow, nullable, name))

    def _type(self, arrow: pa.DataType, nullable: bool, name: str) -> DataType:
        for test, root in _FROM_ARROW:
            if test(arrow):
                return DataType(root, nullable)
        if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
            return DataType("VARCHAR", nullable, length=MAX_LENGTH)
        if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
            return DataType("VARBINARY", nullable, length=MAX_LENGTH)
        if pa.types.is_decimal128(arrow):
            return DataType("DECIMAL", nullable, precision=arrow.precision, scale=arrow.scale)
        if pa.types.is_time32(arrow):
            return DataType("TIME", nullable, precision=0 if arrow.unit == "s" else 3)
        if pa.types.is_timestamp(arrow):
            precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
            return DataType("TIMESTAMP_LTZ" if arrow.tz else "TIMESTAMP", nullable, precision=precision)
        return self._nested(arrow, nullable, name)

    def _nested(self, arrow: pa.DataType, nullable: bool, name: str) -> DataType:
        if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
            child = arrow.value_field
            return DataType("ARRAY", nullable, element=self._type(child.type, child.nullable, name))
        if pa.types.is_map(arrow):
            key = self._type(arrow.key_type, False, name)
            return DataType(
                "MAP", nullable, key=key, element=self._type(arrow.item_type, arrow.item_field.nullable, name)
            )
        if pa.types.is_struct(arrow):
            members = tuple(
                self.field(arrow.field(i).name, arrow.field(i).type, arrow.field(i).nullable)
                for i in range(arrow.num_fields)
            )
            return DataType("ROW", nullable, fields=members)
        raise UnsupportedFeature(f"column {name}: Arrow type {arrow} has no Paimon counterpart")


def fields_from_arrow(schema: pa.Schema) -> tuple[tuple[DataField, ...], int]:
    """Columns for a new table from an Arrow schema, and the highest field id handed out."""
    ids = FieldIds()
    fields = tuple(ids.field(f.name, f.type, f.nullable) for f in schema)
    return fields, ids.next - 1


def field_named(fields: Sequence[DataField], name: str) -> DataField:
    """The field of that exact name.

    :raises InvalidInput: no such field
    """
    for field in fields:
        if field.name == name:
            return field
    known = ", ".join(f.name for f in fields)
    raise InvalidInput(f"column {name!r} does not exist; the columns are {known}")
