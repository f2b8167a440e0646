"""Records of the reference model ↔ the columnar engines' rows, for tests of the merge room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.engine import MergeEngine, merge_engine
from paimon_spark.merge.keys import KeyArray, normalize
from paimon_spark.merge.sorted_merge import fold
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import Options
from paimon_spark.types import DataField, arrow_schema, parse_type
from tests.merge.reference import Record

NO_SEQUENCE = -1
KIND_NAMES = ("+I", "-U", "+U", "-D")


def fields_of(**types: str) -> tuple[DataField, ...]:
    """Columns from their names and Paimon types."""
    return tuple(DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items()))


def to_rows(records: Sequence[Record], fields: Sequence[DataField], with_sequence: bool = True) -> KeyValues:
    """The records as one window of rows with those columns."""
    schema = arrow_schema([DataField(f.id, f.name, f.type.as_nullable()) for f in fields])
    values = pa.Table.from_pylist([r.values for r in records], schema=schema)
    kind = np.array([r.kind for r in records], np.int8)
    sequence = np.array([r.sequence for r in records], np.int64) if with_sequence else None
    return KeyValues(values, sequence, kind if kind.any() else None)


def to_records(rows: KeyValues) -> list[Record]:
    """The rows as records; ``NO_SEQUENCE`` when they have no sequence numbers."""
    sequence = [NO_SEQUENCE] * len(rows) if rows.sequence is None else rows.sequence.tolist()
    kind = [0] * len(rows) if rows.kind is None else rows.kind.tolist()
    return [Record(v, s, k) for v, s, k in zip(rows.values.to_pylist(), sequence, kind, strict=True)]


def engine_of(options: Mapping[str, str], fields: Sequence[DataField], key: Sequence[str] = ("k",)) -> MergeEngine:
    """The merge engine of a table with those options and columns."""
    return merge_engine(TableSchema(0, tuple(fields), len(fields) - 1, (), tuple(key), Options(options)))


def keys_of(rows: KeyValues, *key: DataField) -> KeyArray:
    """The normalised keys of the rows; the key is BIGINT k unless given."""
    fields = key or fields_of(k="BIGINT NOT NULL")
    return normalize([rows.values.column(f.name) for f in fields], [f.type for f in fields])


def fold_records(engine: MergeEngine, records: Sequence[Record], fields: Sequence[DataField]) -> list[Record]:
    """Fold the records, in the order in which they were written, with a columnar engine."""
    rows = to_rows(records, fields)
    return to_records(fold(keys_of(rows), rows, engine))


def parse_records(fields: Sequence[DataField], *lines: str) -> list[Record]:
    """Records such as ``+I 7 x _ 10``, one value a column, ``_`` for null; written in that order."""
    records = []
    for sequence, line in enumerate(lines, start=1):
        kind, *texts = line.split()
        assert len(texts) == len(fields), line
        values = {f.name: _value(text, f) for text, f in zip(texts, fields, strict=True)}
        records.append(Record(values, sequence, KIND_NAMES.index(kind)))
    return records


def show_records(records: Sequence[Record]) -> list[str]:
    """The inverse of :func:`parse_records`, without sequence numbers."""
    return [" ".join([KIND_NAMES[r.kind], *("_" if v is None else str(v) for v in r.values.values())]) for r in records]


def _value(text: str, field: DataField) -> object:
    if text == "_":
        return None
    return int(text) if "INT" in field.type.root else text
