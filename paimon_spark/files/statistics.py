"""Column statistics of data files: gathered while a file is written, and read back for skipping files.

Modes (``metadata.stats-mode``, ``fields.<column>.stats-mode``)::

    none           nothing is known
    counts         the number of nulls
    truncate(n)    also bounds; strings cut to n code points, binaries to n bytes (default, n = 16)
    full           also bounds, uncut

A cut lower bound is a prefix. A cut upper bound is a prefix whose last character that has a successor is replaced by
it and whose rest is dropped; when none has one, neither bound is stored. Nested columns have no statistics at all;
timestamps of more than 6 digits, and floating point columns that hold NaN, have no bounds: Java takes its statistics
from parquet footers, where those are missing too.

Source: ``SimpleColStats``, ``TruncateSimpleColStatsCollector`` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import joined, literal, strings, to_arrow
from paimon_spark.errors import InvalidOption
from paimon_spark.files.evolution import same_values
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import STATS_MODE, Options
from paimon_spark.rows.binary_row import decode, serialize
from paimon_spark.types import NESTED, TIMESTAMPS, DataField, DataType, arrow_type

_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_UNCUT = 2**31


@dataclass(frozen=True)
class StatisticsMode:
    """How much is kept of a column: its null count, its bounds, and how long bounds may be."""

    counts: bool
    bounds: bool
    length: int = _UNCUT

    @classmethod
    def parse(cls, key: str, text: str) -> StatisticsMode:
        """The mode that an option's text names.

        :raises InvalidOption: not a mode
        """
        mode = text.strip().lower()
        truncate = _TRUNCATE.fullmatch(mode)
        if truncate is not None and int(truncate[1]) > 0:
            return cls(True, True, int(truncate[1]))
        simple = {"none": cls(False, False), "counts": cls(True, False), "full": FULL_MODE}
        if mode not in simple:
            raise InvalidOption(f"option {key!r} = {text!r}: none, counts, truncate(n) or full is expected")
        return simple[mode]


FULL_MODE = StatisticsMode(True, True)
NO_MODE = StatisticsMode(False, False)


def statistics_modes(fields: Sequence[DataField], options: Options) -> list[StatisticsMode]:
    """The mode of each column of a table.

    :raises InvalidOption: a text that is not a mode
    """
    modes = []
    for field in fields:
        key = f"fields.{field.name}.stats-mode"
        text = (key, options[key]) if key in options else (STATS_MODE.key, options.get_option(STATS_MODE))
        mode = StatisticsMode.parse(*text)
        nested = field.type.root in NESTED
        modes.append(NO_MODE if nested else replace(mode, bounds=mode.bounds and not _has_no_bounds(field.type)))
    return modes


def _has_no_bounds(type_: DataType) -> bool:
    return type_.root in NESTED or (type_.root in TIMESTAMPS and (type_.precision or 0) > 6)


class ColumnStatistics:
    """Null count and bounds of a column whose values arrive in parts."""

    def __init__(self, type_: DataType, mode: StatisticsMode) -> None:
        self._type = arrow_type(type_)
        self._mode = mode
        self._nulls = 0
        self._bounded = mode.bounds
        self._lowers: list[pa.Scalar] = []
        self._uppers: list[pa.Scalar] = []

    def update(self, column: pa.ChunkedArray) -> None:
        """Take more values into account."""
        if self._mode.counts:
            self._nulls += column.null_count
        if self._bounded and pa.types.is_floating(self._type):
            self._bounded = not pc.any(pc.is_nan(column)).as_py()
        if self._bounded and column.null_count < len(column):
            extremes = pc.min_max(column)
            self._lowers.append(extremes["min"])
            self._uppers.append(extremes["max"])

    @property
    def null_count(self) -> int | None:
        """Number of nulls; None when the mode does not count them."""
        return self._nulls if self._mode.counts else None

    def bounds(self) -> tuple[pa.Array, pa.Array]:
        """Lower and upper bound as arrays of one value, null where there is none."""
        if not (self._bounded and self._lowers):
            return pa.nulls(1, self._type), pa.nulls(1, self._type)
        lower = pc.min(joined(self._lowers))
        upper = pc.max(joined(self._uppers))
        if pa.types.is_floating(self._type):
            lower, upper = _zeros_apart(lower, upper)
        elif pa.types.is_string(self._type) or pa.types.is_binary(self._type):
            return self._cut(lower.as_py(), upper.as_py())
        return pa.repeat(lower, 1), pa.repeat(upper, 1)

    def _cut(self, lower: str | bytes, upper: str | bytes) -> tuple[pa.Array, pa.Array]:
        low, high = _cut(lower, upper, self._mode.length)
        if low is None or high is None:
            return pa.nulls(1, self._type), pa.nulls(1, self._type)
        encoded = [bound.encode() if isinstance(bound, str) else bound for bound in (low, high)]
        return strings(encoded[:1], self._type), strings(encoded[1:], self._type)


def serialize_statistics(types: Sequence[DataType], columns: Sequence[ColumnStatistics]) -> Statistics:
    """The statistics of all columns as a manifest stores them."""
    bounds = [column.bounds() for column in columns]
    nullable = [t.as_nullable() for t in types]
    return Statistics(
        serialize([lower for lower, _ in bounds], nullable)[0],
        serialize([upper for _, upper in bounds], nullable)[0],
        tuple(column.null_count for column in columns),
    )


def _cut(lower: str | bytes, upper: str | bytes, length: int) -> tuple[str | bytes | None, str | bytes | None]:
    if len(upper) <= length:
        return lower[:length], upper
    prefix = upper[:length]
    above = _successor(prefix) if isinstance(prefix, str) else _binary_successor(prefix)
    return (None, None) if above is None else (lower[:length], above)


def _zeros_apart(lower: pa.Scalar, upper: pa.Scalar) -> tuple[pa.Scalar, pa.Scalar]:
    """Bounds that hold for both zeros: Java orders -0.0 below 0.0, Arrow does not tell them apart."""
    if lower.as_py() == 0:
        lower = literal(-0.0, lower.type)
    if upper.as_py() == 0:
        upper = literal(0.0, upper.type)
    return lower, upper


def _successor(prefix: str) -> str | None:
    """The smallest text above all texts that start with ``prefix``; None when there is none."""
    for end in range(len(prefix), 0, -1):
        point = ord(prefix[end - 1]) + 1
        if 0xD800 <= point <= 0xDFFF:
            point = 0xE000
        if point <= 0x10FFFF:
            return prefix[: end - 1] + chr(point)
    return None


def _binary_successor(prefix: bytes) -> bytes | None:
    for end in range(len(prefix), 0, -1):
        if prefix[end - 1] < 0xFF:
            return prefix[: end - 1] + bytes([prefix[end - 1] + 1])
    return None


# --------------------------------------------------------------------------- reading


def column_statistics(
    files: Sequence[DataFile], schemas: Callable[[int], TableSchema], field: DataField, key: bool
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """What the files' metadata says of one column: lower bounds, upper bounds, null counts and row counts.

    All arrays have one entry a file, in the order of ``files``; bounds are of ``arrow_type(field.type)``. Null means
    unknown. ``key`` chooses the statistics of the trimmed primary key over those of all columns. The column is found
    by field id in the schema of each file: a file whose schema lacks it has nulls only, one whose schema gives it
    another type tells nothing about bounds, nor does one written without statistics for it.

    :raises CorruptFile: statistics that contradict the schema
    """
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    for i, file in enumerate(files):
        groups.setdefault((file.schema_id, None if key else file.value_stats_cols), []).append(i)
    type_ = arrow_type(field.type)
    parts: list[tuple[pa.Array, pa.Array, pa.Array]] = []
    for (schema_id, columns), members in groups.items():
        chosen = [files[i] for i in members]
        parts.append(
            _group_statistics(chosen, _layout(schemas(schema_id), columns, key), schemas(schema_id), field, key)
        )
    rows = pa.array([file.row_count for file in files], pa.int64())
    if not parts:
        return pa.nulls(0, type_), pa.nulls(0, type_), pa.nulls(0, pa.int64()), rows
    order = np.empty(len(files), np.int64)
    order[np.concatenate([np.asarray(members, np.int64) for members in groups.values()])] = np.arange(len(files))
    lower, upper, nulls = (pa.concat_arrays(arrays).take(to_arrow(order)) for arrays in zip(*parts, strict=True))
    return lower, upper, nulls, rows


def _layout(schema: TableSchema, columns: tuple[str, ...] | None, key: bool) -> Sequence[DataField]:
    """The fields of the statistics rows of files with that schema."""
    if key:
        return schema.key_fields
    return schema.fields if columns is None else [schema.field(name) for name in columns]


def _group_statistics(
    files: Sequence[DataFile], layout: Sequence[DataField], schema: TableSchema, field: DataField, key: bool
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Lower bounds, upper bounds and null counts of files whose statistics have one layout."""
    type_, count = arrow_type(field.type), len(files)
    stored = next((f for f in schema.fields if f.id == field.id), None)
    if stored is None:
        return pa.nulls(count, type_), pa.nulls(count, type_), pa.array([f.row_count for f in files], pa.int64())
    at = next((i for i, f in enumerate(layout) if f.id == field.id), None)
    if at is None:
        return pa.nulls(count, type_), pa.nulls(count, type_), pa.nulls(count, pa.int64())
    statistics = [f.key_stats if key else f.value_stats for f in files]
    nulls = pa.array([s.null_counts[at] if at < len(s.null_counts) else None for s in statistics], pa.int64())
    if not same_values(stored.type, field.type) or _has_no_bounds(field.type):
        return pa.nulls(count, type_), pa.nulls(count, type_), nulls
    types = [f.type.as_nullable() for f in layout]
    lower, upper = (
        decode(rows, types, [at])[0] for rows in ([s.lower for s in statistics], [s.upper for s in statistics])
    )
    if field.type.root == "CHAR":
        # ORC pads CHAR values with blanks, and so its bounds; what is read is not padded.
        padded = to_arrow(np.array([f.name.endswith(".orc") for f in files]))
        lower, upper = (pc.if_else(padded, pa.nulls(count, type_), bound) for bound in (lower, upper))
    return lower, upper, nulls
