"""AvroInput: reading Avro data files.

Avro stores rows, and its decoder hands them out as Python objects, so this is the one format here whose cost is per
row: some ten times that of parquet. Memory stays bounded by the batch and the file's blocks, and those as in
:mod:`paimon_spark.metadata.avro`.

The root of a file is a record, or (before Paimon 1.1) a union of null and that record. Timestamps are whole numbers
in the unit of the column's type, whatever their logical type says: Paimon's names for zoned and local are swapped.
Decimals are the bytes of the unscaled value, big-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.files.physical import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.metadata.avro import DataContainer
from paimon_spark.predicate import BoolArray, Predicate
from paimon_spark.types import DataField, arrow_type

Convert = Callable[[Any], Any]

_DECIMALS = Context(prec=38)


class AvroInput:
    """An open Avro file, one group of rows. ``fields`` are the columns of the schema it was written with.

    The number of its rows is known only after reading, so ``row_count`` is what the manifest says.
    """

    def __init__(self, source: pa.NativeFile, fields: Sequence[DataField], row_count: int, path: str) -> None:
        self._container = DataContainer(source, source.size(), path)
        self._row_count = row_count
        self._types = {f.name: arrow_type(f.type) for f in fields}
        self._types |= {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()}

    @property
    def columns(self) -> Collection[str]:
        """Names of the columns in the file."""
        return self._container.columns

    @property
    def group_rows(self) -> Sequence[int]:
        """The rows of the whole file."""
        return [self._row_count]

    def may_match(self, predicate: Predicate, columns: Mapping[str, str]) -> BoolArray:
        """The whole file: Avro has no statistics."""
        return np.ones(1, np.bool_)

    def batches(self, columns: Sequence[str], groups: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in order. Can be asked for once."""
        if not groups:
            return
        rows = self._container.rows()
        types = [self._types[name] for name in columns]
        converts = [_conversion(type_) for type_ in types]
        while batch := list(islice(rows, batch_rows)):
            arrays = []
            for name, type_, convert in zip(columns, types, converts, strict=True):
                values = [row[name] for row in batch]
                arrays.append(pa.array(values if convert is None else [convert(v) for v in values], type_))
            yield pa.RecordBatch.from_arrays(arrays, list(columns))


def _conversion(type_: pa.DataType) -> Convert | None:
    """How a decoded value becomes what Arrow takes for ``type_``; None when it is that already.

    A MAP with text keys is a dict, another an array of records of key and value; Arrow takes pairs.
    """
    if pa.types.is_decimal(type_):
        return lambda unscaled: None if unscaled is None else _decimal(unscaled, type_.scale)
    if pa.types.is_map(type_):
        key, item = _conversion(type_.key_type) or _same, _conversion(type_.item_type) or _same
        return lambda entries: None if entries is None else [(key(k), item(v)) for k, v in _pairs(entries)]
    if pa.types.is_list(type_):
        element = _conversion(type_.value_type)
        return None if element is None else lambda items: None if items is None else [element(v) for v in items]
    if pa.types.is_struct(type_):
        members = {type_.field(i).name: _conversion(type_.field(i).type) for i in range(type_.num_fields)}
        return lambda row: None if row is None else {n: (c or _same)(row.get(n)) for n, c in members.items()}
    return None


def _decimal(unscaled: bytes, scale: int) -> Decimal:
    return _DECIMALS.scaleb(int.from_bytes(unscaled, "big", signed=True), -scale)


def _same(value: Any) -> Any:
    return value


def _pairs(entries: Any) -> Any:
    return entries.items() if isinstance(entries, dict) else ((entry["key"], entry["value"]) for entry in entries)
