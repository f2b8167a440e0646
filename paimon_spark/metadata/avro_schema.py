"""The Avro schemas that files of manifests carry: made safe to read by, and compared with what a reader relies on.

A file's schema is rewritten before use: named types are inlined under new names (a type that contains itself is
refused), logical types dropped (a timestamp stays an integer), and arrays whose items take no bytes refused, for they
could claim any length. A :class:`Layout` then says which fields a reader relies on, so that it need not check the type
of every value; fields are found by name, as Paimon's Java code does.

Source: ``AvroSchemaConverter`` and ``FieldReaderFactory`` of Apache Paimon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SCHEMA_LIMIT = 2**20
SCHEMA_NODES = 10_000
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, eq=False)
class Layout:
    """What a reader expects of a record: the Avro type of each field, and which fields may be missing.

    A type is a primitive's name, ``[item]`` for an array, or a Layout for a record. Every optional field may also
    be a union with null; ``items_nullable`` arrays are spelled ``[item, "null"]``.
    """

    required: Mapping[str, Any]
    optional: Mapping[str, Any]


@dataclass(frozen=True)
class ReadingSchema:
    """A file's schema: its ``declared`` fields, the inlined ``record`` that they make, and for fastavro the ``root``,
    which is the record or a union of null and the record, and the ``array`` of roots."""

    declared: tuple[Mapping[str, Any], ...]
    record: dict[str, Any]
    root: Any
    array: Any


@lru_cache(maxsize=64)
def match_schema(text: bytes, layout: Layout) -> tuple[ReadingSchema, frozenset[tuple[str, ...]]]:
    schema = reading_schema(text)
    if isinstance(schema.root, list):
        raise ValueError("its root is not a record")
    return schema, frozenset(_match(schema.record, layout, ()))


def reading_schema(text: bytes) -> ReadingSchema:
    """A file's schema, made safe.

    :raises ValueError: it is none, or it would let a reader run away
    """
    from fastavro import parse_schema

    if len(text) > SCHEMA_LIMIT:
        raise ValueError(f"it has more than {SCHEMA_LIMIT} bytes")
    try:
        declared = json.loads(text)
        root = _Inliner().inline(declared, "", ())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{problem!r}") from None
    record, outermost = _without_null(root), _without_null(declared)
    if not isinstance(record, dict) or not isinstance(outermost, dict) or outermost["type"] != "record":
        raise ValueError("its root is not a record")
    return ReadingSchema(
        tuple(outermost["fields"]), record, parse_schema(root), parse_schema({"type": "array", "items": root})
    )


class _Inliner:
    """Replaces references to named types by copies of them, under new names."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._nodes = 0

    def inline(self, schema: Any, namespace: str, inside: tuple[str, ...]) -> Any:
        self._nodes += 1
        if self._nodes > SCHEMA_NODES:
            raise ValueError(f"it has more than {SCHEMA_NODES} types")
        if isinstance(schema, list):
            return [self.inline(branch, namespace, inside) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else self._reference(schema, namespace, inside)
        kind = schema["type"]
        if kind == "array":
            return {"type": "array", "items": self._sized(self.inline(schema["items"], namespace, inside))}
        if kind == "map":
            return {"type": "map", "values": self.inline(schema["values"], namespace, inside)}
        if kind in ("record", "fixed", "enum"):
            return self._define(schema, namespace, inside)
        return self.inline(kind, namespace, inside)

    def _reference(self, name: str, namespace: str, inside: tuple[str, ...]) -> Any:
        full = name if "." in name or f"{namespace}.{name}" not in self._named else f"{namespace}.{name}"
        if full in inside:
            raise ValueError(f"type {name!r} contains itself")
        if full not in self._named:
            raise ValueError(f"type {name!r} is not defined")
        definition, its_namespace = self._named[full]
        return self._named_type(definition, its_namespace, (*inside, full))

    def _define(self, schema: Any, namespace: str, inside: tuple[str, ...]) -> Any:
        name = schema["name"]
        namespace = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        self._named[full] = (schema, namespace)
        return self._named_type(schema, namespace, (*inside, full))

    def _named_type(self, schema: Any, namespace: str, inside: tuple[str, ...]) -> Any:
        named = {"type": schema["type"], "name": f"r{self._nodes}"}
        self._nodes += 1
        if schema["type"] == "fixed":
            return {**named, "size": schema["size"]}
        if schema["type"] == "enum":
            return {**named, "symbols": schema["symbols"]}
        fields = [{"name": f["name"], "type": self.inline(f["type"], namespace, inside)} for f in schema["fields"]]
        return {**named, "fields": fields}

    @staticmethod
    def _sized(items: Any) -> Any:
        """Items that take at least a byte: an array of nothings could claim any length."""
        if items == "null" or (isinstance(items, dict) and items["type"] in ("record", "fixed") and not _size(items)):
            raise ValueError("an array's items take no bytes")
        return items


def _size(schema: Any) -> int:
    """The least number of bytes that a value takes."""
    if schema == "null":
        return 0
    if isinstance(schema, dict) and schema["type"] == "record":
        return sum(_size(field["type"]) for field in schema["fields"])
    if isinstance(schema, dict) and schema["type"] == "fixed":
        return int(schema["size"])
    return 1


def _match(record: Mapping[str, Any], layout: Layout, where: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of the optional fields that the record lacks.

    :raises ValueError: a required field is missing, or a field has another type than expected
    """
    fields = {field["name"]: field["type"] for field in record["fields"]}
    for name, expected in layout.required.items():
        if name not in fields:
            raise ValueError(f"field {name} is missing")
        yield from _match_type(fields[name], expected, (*where, name))
    for name, expected in layout.optional.items():
        if name not in fields:
            yield (*where, name)
        else:
            yield from _match_type(_without_null(fields[name]), expected, (*where, name))


def _match_type(actual: Any, expected: Any, where: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(expected, Layout):
        if not isinstance(actual, dict) or actual["type"] != "record":
            raise ValueError(f"field {'.'.join(where)} is not a record")
        yield from _match(actual, expected, where)
    elif isinstance(expected, list):
        if not isinstance(actual, dict) or actual["type"] != "array":
            raise ValueError(f"field {'.'.join(where)} is not an array")
        items = _without_null(actual["items"]) if "null" in expected else actual["items"]
        yield from _match_type(items, expected[0], where)
    elif actual != expected:
        raise ValueError(f"field {'.'.join(where)} has type {actual!r}, not {expected}")


def _without_null(type_: Any) -> Any:
    """``T`` of the union ["null", T]; other types as they are."""
    if isinstance(type_, list) and len(type_) == 2 and type_[0] == "null":
        return type_[1]
    return type_
