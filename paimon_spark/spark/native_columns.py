"""Which columns of a data file Spark's own parquet reader answers exactly as this package does, and under which name.

A file is read with the schema that it was written with: a column is the one of the same field id, under the name it had
then, and what that schema lacks is null (:mod:`paimon_spark.files.evolution`). Spark's reader is used only where it
cannot answer differently:

- every type but TIME, which Spark does not read, and timestamps of more than six digits, which some writers store in a
  way that it refuses;
- no type that Spark filters wrongly in parquet among the members of a ROW. (Columns of their own are shielded from
  that, see :attr:`FileColumn.sql`.) Of FLOAT and DOUBLE, Spark skips row groups by bounds that leave NaN out, although
  NaN is its greatest value. Of TIMESTAMP_LTZ up to three digits, which files hold in milliseconds, it cuts off the
  microseconds of what a query compares with, and then skips rows that are less, or not equal;
- types that are unchanged, or widened without rounding;
- names that stay different when case is ignored, as Spark's reader does by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark

from paimon_spark.files.evolution import column_sources, same_values
from paimon_spark.files.physical import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.spark.types import spark_type
from paimon_spark.types import INTEGER_BITS, NESTED, TIMESTAMPS, DataField, DataType

METADATA = "_metadata"
# The column of a parquet scan that Spark fills with positions of rows. `_metadata.row_index` is the same number, but
# every row pays for an object to put it in.
POSITION = "_tmp_metadata_row_index"
_FLOATING = ("FLOAT", "DOUBLE")
_MICROSECONDS = 6
_MILLISECONDS = 3


@dataclass(frozen=True)
class FileColumn:
    """One wanted column of a file: ``stored`` is its name in the file and ``type`` its type there; both are None
    where the file was written before the column was added."""

    name: str
    wanted: DataType
    stored: str | None
    type: DataType | None

    def __hash__(self) -> int:
        """Of the names alone: thousands of files are grouped by their columns, and types hash slowly."""
        return hash((self.name, self.stored))

    @property
    def sql(self) -> str:
        """The column as the wanted type and under its name, in Spark's SQL."""
        target = spark_type(self.wanted).simpleString()
        if self.stored is None:
            return f"CAST(NULL AS {_sql_type(self.wanted)}) AS {quoted(self.name)}"
        value = quoted(self.stored)
        if self.type != self.wanted and self.wanted.root not in NESTED:
            value = f"CAST({value} AS {target})"
        # The same values, which Spark does not recognise as a column that parquet could filter.
        if self.wanted.root in _FLOATING:
            value = f"nanvl({value}, CAST('NaN' AS {target}))"
        elif _is_filtered_wrongly(self.wanted):
            value = f"timestamp_micros(unix_micros({value}))"
        return value if value == quoted(self.name) else f"{value} AS {quoted(self.name)}"


def quoted(name: str) -> str:
    """``name`` as Spark's SQL writes one part of a name."""
    return "`" + name.replace("`", "``") + "`"


def native_columns(written: TableSchema, wanted: Sequence[DataField]) -> tuple[FileColumn, ...] | None:
    """How Spark reads the columns ``wanted`` of files with the schema ``written``; None where it must not."""
    if not _distinct([*_physical_names(written), *(f.name for f in wanted)]):
        return None
    if {METADATA, POSITION} & {f.name for f in (*written.fields, *wanted)}:
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


def file_schema(columns: Iterable[FileColumn], positions: bool) -> Any:
    """The StructType with which Spark reads files for ``columns``, and with ``positions`` for :data:`POSITION`. It is
    never empty: rows are to be counted."""
    fields = [spark.StructField(c.stored, spark_type(c.type)) for c in columns if c.stored and c.type]
    if positions:
        fields.append(spark.StructField(POSITION, spark.LongType()))
    return spark.StructType(fields or [spark.StructField(SEQUENCE_NUMBER, spark.LongType())])


def fresh_name(name: str, taken: Collection[str]) -> str:
    """``name``, with underscores before it until no name in ``taken`` is the same, whatever the case."""
    used = {_folded(other) for other in taken}
    while _folded(name) in used:
        name = "_" + name
    return name


def _sql_type(type_: DataType) -> str:
    """``spark_type(type_)`` in Spark's SQL, with the names of members quoted. What a bare TIMESTAMP is, the session
    says."""
    if type_.root == "TIMESTAMP_LTZ":
        return "TIMESTAMP_LTZ"
    if type_.root == "ROW":
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {_sql_type(f.type)}' for f in type_.fields)}>"
    if type_.root == "ARRAY":
        return f"ARRAY<{_sql_type(type_.element_type())}>"
    if type_.root == "MAP":
        return f"MAP<{_sql_type(type_.key_type())}, {_sql_type(type_.element_type())}>"
    return str(spark_type(type_).simpleString())


def _physical_names(written: TableSchema) -> Iterator[str]:
    yield from (KEY_PREFIX + f.name for f in written.key_fields)
    yield METADATA
    yield POSITION
    yield SEQUENCE_NUMBER
    yield VALUE_KIND
    yield from (f.name for f in written.fields)


def _distinct(names: Sequence[str]) -> bool:
    """Whether different names stay different when case is ignored."""
    return len(set(names)) == len({_folded(name) for name in names})


def _folded(name: str) -> str:
    """The same for all names that Spark may take for one, in lower case or character by character (``İ``, ``i̇``, ``ı``
    and ``I``, for instance), and for a few more."""
    return name.upper().casefold().replace("\N{COMBINING DOT ABOVE}", "")


def is_native(type_: DataType, inside_row: bool = False) -> bool:
    """Whether Spark reads and filters columns of ``type_`` as this package does."""
    if type_.root == "TIME":
        return False
    if type_.root in TIMESTAMPS and (type_.precision or 0) > _MICROSECONDS:
        return False
    if type_.root == "ROW":
        members = type_.fields
        return bool(members) and _distinct_members(members) and all(is_native(f.type, True) for f in members)
    if type_.root in NESTED:
        # Spark makes no parquet filter of what is inside a collection.
        return (type_.key is None or is_native(type_.key)) and is_native(type_.element_type())
    return not (inside_row and _is_filtered_wrongly(type_))


def _is_filtered_wrongly(type_: DataType) -> bool:
    """Whether Spark leaves out rows that satisfy a query's condition when parquet filters values of ``type_``."""
    return type_.root in _FLOATING or (type_.root == "TIMESTAMP_LTZ" and (type_.precision or 0) <= _MILLISECONDS)


def _distinct_members(members: Sequence[DataField]) -> bool:
    return len({_folded(f.name) for f in members}) == len(members)


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
