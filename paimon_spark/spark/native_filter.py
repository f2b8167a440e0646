"""Values and filters of this package as Spark expressions.

A value becomes a literal without the session's time zone or Python's calendar having a say: dates and instants are
made from numbers, wall-clock times from text. Filters follow :mod:`paimon_spark.predicate`, whose rules for nulls and
NaN are those of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from paimon_spark.predicate import Comparison, Predicate
from paimon_spark.spark.types import spark_type
from paimon_spark.types import DataType

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def literal(value: pa.Scalar, type_: DataType) -> Any:
    """``value``, an Arrow scalar of ``arrow_type(type_)``, as a Spark literal of ``spark_type(type_)``.

    Requires: a type of a single value, a timestamp of at most six digits, no TIME.
    """
    target = spark_type(type_)
    if not value.is_valid:
        return F.lit(None).cast(target)
    if type_.root == "DATE":
        return F.date_from_unix_date(F.lit(value.value))
    if type_.root == "TIMESTAMP_LTZ":
        return F.timestamp_micros(F.lit(value.cast(pa.timestamp("us", "UTC")).value))
    if type_.root == "TIMESTAMP":
        moment = np.datetime64(value.cast(pa.timestamp("us")).value, "us")
        return F.lit(str(moment)).cast(target)
    return F.lit(value.as_py()).cast(target)


def row_filter(predicate: Predicate, types: Mapping[str, DataType], column: Callable[[str], Any]) -> Any:
    """The rows that satisfy ``predicate``, as a Spark condition; ``column`` gives the Spark column of a name."""
    groups = []
    for group in predicate.any_of:
        groups.append(reduce(and_, [_condition(c, types[c.column], column(c.column)) for c in group]))
    return reduce(or_, groups)


def _condition(comparison: Comparison, type_: DataType, column: Any) -> Any:
    operator, value = comparison.operator, comparison.value
    if operator == "is null":
        return column.isNull()
    if operator == "is not null":
        return column.isNotNull()
    if operator == "starts with":
        return column.startswith(literal(value, type_))
    if operator in ("in", "not in"):
        return _membership(operator, value, type_, column)
    return _COMPARE[operator](column, literal(value, type_))


def _membership(operator: str, values: pa.Array, type_: DataType, column: Any) -> Any:
    given = values.drop_null()
    found = column.isin([literal(v, type_) for v in given]) if len(given) else F.lit(False)
    if operator == "in":
        return found
    return F.lit(False) if values.null_count else column.isNotNull() & ~found
