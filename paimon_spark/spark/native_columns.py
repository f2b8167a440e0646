"""Which columns of a data file Spark's own parquet reader answers exactly as this package does, and under which name.

A file is read with the schema that it was written with: a column is the one of the same field id, under the name it had
then, and what that schema lacks is null (:mod:`paimon_spark.files.evolution`). Spark's reader is used only where it
cannot answer differently:

- every type but TIME, which Spark does not read, and timestamps of more than six digits, which some writers store in a
  way that it refuses;
- no FLOAT or DOUBLE among the members of a ROW: Spark skips row groups by bounds that leave NaN out, although NaN is
  its greatest value. (Columns of their own are shielded from that by :func:`shielded`.)
- types that are unchanged, or widened without rounding;
- names that stay different when case is ignored, as Spark's reader does by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as spark

from paimon_spark.files.evolution import column_sources, same_values
from paimon_spark.files.physical import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.spark.types import spark_type
from paimon_spark.types import INTEGER_BITS, NESTED, TIMESTAMPS, DataField, DataType

_FLOATING = ("FLOAT", "DOUBLE")
_MICROSECONDS = 6


@dataclass(frozen=True)
class FileColumn:
    """One wanted column of a file: ``stored`` is its name in the file and ``type`` its type there; both are None
    where the file was written before the column was added."""

    name: str
    wanted: DataType
    stored: str | None
    type: DataType | None

    def value(self, frame: Any) -> Any:
        """The column of the DataFrame ``frame``, which reads the file, as the wanted type."""
        target = spark_type(self.wanted)
        if self.stored is None:
            return F.lit(None).cast(target)
        column = frame[quoted(self.stored)]
        if self.type != self.wanted:
            column = column.cast(target)
        return shielded(column, self.wanted)


def quoted(name: str) -> str:
    """``name`` as Spark's SQL writes one part of a name."""
    return "`" + name.replace("`", "``") + "`"


def shielded(column: Any, type_: DataType) -> Any:
    """``column`` with the same values; one of FLOAT or DOUBLE so that Spark does not hand filters on it to parquet."""
    if type_.root not in _FLOATING:
        return column
    return F.nanvl(column, F.lit(float("nan")).cast(spark_type(type_)))


def native_columns(written: TableSchema, wanted: Sequence[DataField]) -> tuple[FileColumn, ...] | None:
    """How Spark reads the columns ``wanted`` of files with the schema ``written``; None where it must not."""
    if not _distinct([*_physical_names(written), *(f.name for f in wanted)]):
        return None
    columns = []
    for source in column_sources(wanted, written.fields):
        name, type_ = source.wanted.name, source.wanted.type.as_nullable()
        if source.stored is None:
            columns.append(FileColumn(name, type_, None, None))
        elif is_native(source.stored.type) and _keeps_values(source.stored.type, type_):
            columns.append(FileColumn(name, type_, source.stored.name, source.stored.type.as_nullable()))
        else:
            return None
    return tuple(columns)


def file_schema(columns: Iterable[FileColumn]) -> Any:
    """The StructType with which Spark reads files for ``columns``. It is never empty: rows are to be counted."""
    fields = [spark.StructField(c.stored, spark_type(c.type)) for c in columns if c.stored and c.type]
    return spark.StructType(fields or [spark.StructField(SEQUENCE_NUMBER, spark.LongType())])


def fresh_name(name: str, taken: Collection[str]) -> str:
    """``name``, with underscores before it until no name in ``taken`` is the same, whatever the case."""
    used = {other.lower() for other in taken}
    while name.lower() in used:
        name = "_" + name
    return name


def _physical_names(written: TableSchema) -> Iterator[str]:
    yield from (KEY_PREFIX + f.name for f in written.key_fields)
    yield SEQUENCE_NUMBER
    yield VALUE_KIND
    yield from (f.name for f in written.fields)


def _distinct(names: Sequence[str]) -> bool:
    """Whether different names stay different when case is ignored."""
    return len(set(names)) == len({name.lower() for name in names})


def is_native(type_: DataType, inside_row: bool = False) -> bool:
    """Whether Spark reads and filters columns of ``type_`` as this package does."""
    if type_.root == "TIME":
        return False
    if type_.root in TIMESTAMPS:
        return (type_.precision or 0) <= _MICROSECONDS
    if type_.root == "ROW":
        members = type_.fields
        return bool(members) and _distinct_members(members) and all(is_native(f.type, True) for f in members)
    if type_.root in NESTED:
        # Spark makes no parquet filter of what is inside a collection.
        return (type_.key is None or is_native(type_.key)) and is_native(type_.element_type())
    return not (inside_row and type_.root in _FLOATING)


def _distinct_members(members: Sequence[DataField]) -> bool:
    return len({f.name.lower() for f in members}) == len(members)


def _keeps_values(stored: DataType, wanted: DataType) -> bool:
    """Whether Spark's cast from ``stored`` to ``wanted`` changes no value."""
    if same_values(stored, wanted):
        return True
    if stored.root in INTEGER_BITS and wanted.root in INTEGER_BITS:
        return INTEGER_BITS[stored.root] <= INTEGER_BITS[wanted.root]
    if stored.root == wanted.root == "DECIMAL":
        return _digits(stored) <= _digits(wanted) and (stored.scale or 0) <= (wanted.scale or 0)
    return stored.root == "FLOAT" and wanted.root == "DOUBLE"


def _digits(type_: DataType) -> int:
    """Digits before the point."""
    return (type_.precision or 0) - (type_.scale or 0)
