"""Filters that users hand to a scan, evaluated exactly on rows and conservatively on statistics.

A predicate is an OR of ANDs of comparisons, written as pyarrow writes parquet filters::

    [("id", ">", 5), ("name", "in", ["a", "b"])]          # all of them
    [[("id", "<", 2)], [("id", ">", 7)]]                  # either group
    '[["id", ">", 5]]'                                    # the same as JSON, for options

Comparisons follow SQL: a null operand makes a comparison not true. Floating point values compare as SQL
engines do on this data: NaN is equal to itself and greater than every number, -0.0 equals 0.0.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import literal
from paimon_spark.errors import InvalidInput
from paimon_spark.types import BINARIES, NESTED, STRINGS, DataField, arrow_type, field_named

BoolArray = npt.NDArray[np.bool_]

_SYNONYMS = {"=": "==", "<>": "!=", "isnull": "is null", "isnotnull": "is not null"}
_ORDER: dict[str, Callable[..., Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
OPERATORS = (*_ORDER, "in", "not in", "is null", "is not null", "starts with")


@dataclass(frozen=True)
class Comparison:
    """``column operator value``; ``value`` is an Arrow scalar of the column's type, an Arrow array for
    ``in`` / ``not in``, and None for the null tests."""

    column: str
    operator: str
    value: Any

    def mask(self, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        """Whether each row satisfies the comparison; never null."""
        if self.operator == "is null":
            return pc.is_null(column)
        if self.operator == "is not null":
            return pc.is_valid(column)
        if self.operator == "starts with":
            return pc.fill_null(pc.starts_with(column, pattern=self.value.as_py()), False)
        if self.operator in ("in", "not in"):
            return self._membership(column)
        found = pc.fill_null(_ORDER[self.operator](column, self.value), False)
        return self._with_nan(column, found) if pa.types.is_floating(column.type) else found

    def _membership(self, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        values = self.value.drop_null()
        if pa.types.is_floating(column.type):
            zero = literal(0.0, column.type)  # -0.0 + 0.0 is 0.0
            column, values = pc.add(column, zero), pc.add(values, zero)
        found = pc.is_in(column, value_set=values)
        if self.operator == "in":
            return pc.and_(found, pc.is_valid(column))
        if self.value.null_count:
            return pc.and_(found, False)
        return pc.and_(pc.invert(found), pc.is_valid(column))

    def _with_nan(self, column: Any, found: Any) -> Any:
        """Arrow follows IEEE (NaN compares false); here NaN is the greatest value and equals itself."""
        is_nan = pc.fill_null(pc.is_nan(column), False)
        if np.isnan(self.value.as_py()):
            every = pc.is_valid(column)
            number = pc.and_(every, pc.invert(is_nan))
            return {"==": is_nan, ">=": is_nan, "<=": every, "<": number, "!=": number}.get(
                self.operator, pc.and_(every, False)
            )
        if self.operator in (">", ">=", "!="):
            return pc.or_(found, is_nan)
        return pc.and_(found, pc.invert(is_nan))

    def may_match(self, lower: pa.Array, upper: pa.Array, nulls: pa.Array, rows: pa.Array) -> BoolArray:
        """Whether any row of each file may satisfy this, judged by the files' statistics.

        ``lower``, ``upper``: bounds of the column's type, null where unknown; ``nulls``: null counts, null
        where unknown; ``rows``: row counts. All have one entry a file. What is unknown excludes no file.
        """
        all_null = pc.fill_null(pc.equal(nulls, rows), False)
        if self.operator == "is null":
            possible = pc.fill_null(pc.greater(nulls, 0), True)
        elif self.operator == "is not null":
            possible = pc.invert(all_null)
        else:
            possible = pc.and_(self._bounds_match(lower, upper), pc.invert(all_null))
        return np.asarray(possible.to_numpy(zero_copy_only=False), dtype=np.bool_)

    def _bounds_match(self, lower: pa.Array, upper: pa.Array) -> pa.Array:
        known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
        if self.operator in ("in", "not in"):
            verdict = self._bounds_hold_any(lower, upper)
        elif pa.types.is_floating(lower.type):
            # Writers leave NaN out of the bounds, and NaN is greater than all of them.
            verdict = _float_bounds(self.operator, lower, upper, self.value)
        elif self.operator == "starts with":
            prefix = self.value
            verdict = pc.and_(
                pc.greater_equal(upper, prefix),
                pc.or_(pc.less_equal(lower, prefix), pc.starts_with(lower, pattern=prefix.as_py())),
            )
        else:
            verdict = _scalar_bounds(self.operator, lower, upper, self.value)
        return pc.or_(pc.fill_null(verdict, True), pc.invert(known))

    def _bounds_hold_any(self, lower: pa.Array, upper: pa.Array) -> pa.Array:
        if self.operator == "not in":
            return pa.repeat(True, len(lower))
        floating = pa.types.is_floating(lower.type)
        verdict = pa.repeat(False, len(lower))
        for value in self.value.drop_null():
            compare = _float_bounds if floating else _scalar_bounds
            verdict = pc.or_(verdict, pc.fill_null(compare("==", lower, upper, value), True))
        return verdict


def _scalar_bounds(operator: str, lower: pa.Array, upper: pa.Array, value: pa.Scalar) -> pa.Array:
    if operator == "==":
        return pc.and_(pc.less_equal(lower, value), pc.greater_equal(upper, value))
    if operator == "!=":
        return pc.invert(pc.and_(pc.equal(lower, value), pc.equal(upper, value)))
    if operator in ("<", "<="):
        return _ORDER[operator](lower, value)
    return _ORDER[operator](upper, value)


def _float_bounds(operator: str, lower: pa.Array, upper: pa.Array, value: pa.Scalar) -> pa.Array:
    if np.isnan(value.as_py()) or operator in (">", ">=", "!="):
        return pa.repeat(True, len(lower))
    unbounded = pc.or_(pc.is_nan(lower), pc.is_nan(upper))
    return pc.or_(_scalar_bounds(operator, lower, upper, value), unbounded)


@dataclass(frozen=True)
class Predicate:
    """An OR of ANDs of comparisons. ``any_of`` is never empty, and none of its groups is."""

    any_of: tuple[tuple[Comparison, ...], ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the predicate reads."""
        return frozenset(c.column for group in self.any_of for c in group)

    def restricted(self, columns: Collection[str]) -> Predicate | None:
        """The weaker predicate on ``columns`` alone: every row that satisfies this one satisfies it.

        None when that leaves nothing to test.
        """
        groups = tuple(tuple(c for c in group if c.column in columns) for group in self.any_of)
        return Predicate(groups) if all(groups) else None

    def mask(self, rows: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array:
        """Whether each row satisfies the predicate; never null.

        Requires: ``rows`` has all of :attr:`columns`.
        """
        return _fold(pc.or_, [_fold(pc.and_, [c.mask(rows.column(c.column)) for c in g]) for g in self.any_of])

    def may_match(self, statistics: Callable[[Comparison], BoolArray]) -> BoolArray:
        """Whether each file may hold a satisfying row, given the verdict on single comparisons."""
        verdicts = [np.logical_and.reduce([statistics(c) for c in group]) for group in self.any_of]
        return np.asarray(np.logical_or.reduce(verdicts), dtype=np.bool_)


def _fold(combine: Callable[[Any, Any], Any], masks: Sequence[Any]) -> Any:
    result = masks[0]
    for mask in masks[1:]:
        result = combine(result, mask)
    return result


def parse_predicate(filters: Any, fields: Sequence[DataField]) -> Predicate | None:
    """A predicate from pyarrow-style tuples or their JSON; None when there is nothing to filter.

    :raises InvalidInput: not in that form, unknown column or operator, or a value that does not fit its column
    """
    if isinstance(filters, str):
        try:
            filters = json.loads(filters)
        except (ValueError, RecursionError) as problem:
            raise InvalidInput(f"filters are not valid JSON ({problem}): {filters[:200]}") from None
    if filters is None:
        return None
    if not isinstance(filters, (list, tuple)) or (filters and isinstance(filters[0], str)):
        raise InvalidInput(f"filters must be a list of [column, operator, value], not {filters!r}")
    if not filters:
        return None
    grouped = filters if _is_group(filters[0]) else [filters]
    if not all(isinstance(group, (list, tuple)) for group in grouped):
        raise InvalidInput(f"filters that are OR-ed must be lists of lists of [column, operator, value]: {filters!r}")
    return Predicate(tuple(tuple(_comparison(c, fields) for c in group) for group in grouped))


def _is_group(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and bool(item) and isinstance(item[0], (list, tuple))


def _comparison(item: Any, fields: Sequence[DataField]) -> Comparison:
    if not isinstance(item, (list, tuple)) or len(item) not in (2, 3) or not isinstance(item[0], str):
        raise InvalidInput(f"a filter is [column, operator, value], not {item!r}")
    field = field_named(fields, item[0])
    operator = _SYNONYMS.get(str(item[1]).lower(), str(item[1]).lower())
    if operator not in OPERATORS:
        raise InvalidInput(f"filter {item!r}: operator {item[1]!r} is not one of {', '.join(OPERATORS)}")
    if operator in ("is null", "is not null"):
        return Comparison(field.name, operator, None)
    if len(item) != 3:
        raise InvalidInput(f"filter {item!r}: operator {operator!r} needs a value")
    if field.type.root in NESTED:
        raise InvalidInput(f"filter {item!r}: column {field.name} is of type {field.type}; test it for null only")
    if operator == "starts with" and field.type.root not in STRINGS | BINARIES:
        raise InvalidInput(f"filter {item!r}: column {field.name} is of type {field.type}, which starts with nothing")
    if item[2] is None:
        raise InvalidInput(f"filter {item!r}: nothing compares with null; use 'is null' or 'is not null'")
    return Comparison(field.name, operator, _value(item, operator, field))


def _value(item: Any, operator: str, field: DataField) -> Any:
    target = arrow_type(field.type)
    try:
        if operator in ("in", "not in"):
            if not isinstance(item[2], (list, tuple, set, frozenset)):
                raise InvalidInput(f"filter {item!r}: operator {operator!r} needs a list of values")
            return pa.array([_scalar(v, target, field).as_py() for v in item[2]], target)
        return _scalar(item[2], target, field)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise InvalidInput(
            f"filter {item!r}: {item[2]!r} does not fit column {field.name} of type {field.type} ({problem})"
        ) from None


def _scalar(value: Any, target: pa.DataType, field: DataField) -> pa.Scalar:
    """``value`` as the column's type; texts of dates, times, timestamps, decimals and (hex) binaries too."""
    if value is None:
        return pa.scalar(None, target)
    if isinstance(value, bool) != pa.types.is_boolean(target):
        raise ValueError("a boolean is needed" if pa.types.is_boolean(target) else "a boolean is not expected")
    if isinstance(value, str) and field.type.root in BINARIES:
        return pa.scalar(bytes.fromhex(value), target)
    if pa.types.is_decimal(target):
        return pa.scalar(decimal.Decimal(str(value)), target)
    if isinstance(value, str) and not pa.types.is_string(target):
        if pa.types.is_timestamp(target):
            return _timestamp(value, target)
        if pa.types.is_time(target):
            return pa.scalar(datetime.time.fromisoformat(value), target)
        return pa.scalar(value).cast(target)
    if isinstance(value, float) and pa.types.is_integer(target) and not value.is_integer():
        raise ValueError("a whole number is needed")
    return pa.scalar(value, target)


def _timestamp(text: str, target: pa.TimestampType) -> pa.Scalar:
    zone = "UTC" if _has_zone(text) else None
    if zone and target.tz is None:
        raise ValueError("a timestamp without a time zone is needed")
    try:
        parsed = pa.scalar(text).cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        # Nanoseconds hold no years before 1677 or after 2262, and microseconds no more than six digits.
        parsed = pa.scalar(text).cast(pa.timestamp("ns", zone))
    return parsed.cast(pa.timestamp(parsed.type.unit, target.tz)).cast(target)


def _has_zone(text: str) -> bool:
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None
    except ValueError:
        return False
