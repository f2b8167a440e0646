"""What a lookup file remembers of a row, besides its key.

::

    value               compact row of the columns | int64 sequence number | int8 row kind
    position            varint row position
    position-and-value  compact row of the columns | int64 row position | int64 sequence number | int8 row kind
    empty               nothing: only that the key exists

Fixed-width numbers are little-endian. A position counts all rows of the data file, those marked as deleted too.

Source: ``PersistValueProcessor``, ``PersistPositionProcessor``, ``PersistValueAndPosProcessor``,
``PersistEmptyProcessor`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptFile
from paimon_spark.files.key_values import KeyValues
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import CHANGELOG_PRODUCER, DELETION_VECTORS, MERGE_ENGINE, SEQUENCE_FIELD
from paimon_spark.rows import compact_row
from paimon_spark.rows.byte_strings import (
    EMPTY,
    Int64s,
    matrix_strings,
    offsets_and_bytes,
    read_varints,
    rows_at,
    varints,
)
from paimon_spark.types import DataField, arrow_schema


@dataclass(frozen=True)
class Remembered:
    """What values of a lookup file say: where each row is in its data file, and the row itself, as far as kept."""

    positions: Int64s | None
    rows: KeyValues | None


@dataclass(frozen=True)
class ValueProcessor:
    """Turns rows into values of a lookup file and back. ``fields`` are the columns to keep, None for no columns."""

    fields: tuple[DataField, ...] | None
    position: bool

    @property
    def name(self) -> str:
        """Paimon's name for what is kept."""
        if self.fields is None:
            return "position" if self.position else "empty"
        return "position-and-value" if self.position else "value"

    def encode(self, rows: KeyValues, positions: Int64s) -> pa.BinaryArray:
        """The value of each row.

        Requires: sequence numbers, if columns are kept.
        """
        if self.fields is None:
            return varints(positions) if self.position else pa.repeat(EMPTY, len(positions))
        assert rows.sequence is not None
        columns = [rows.values.column(field.name) for field in self.fields]
        kinds = np.zeros(len(rows), np.int8) if rows.kind is None else rows.kind
        trailer = np.zeros(len(rows), self._trailer)
        trailer["sequence"], trailer["kind"] = rows.sequence, kinds
        if self.position:
            trailer["position"] = positions
        encoded = compact_row.encode(columns, [field.type for field in self.fields])
        tails = matrix_strings(trailer.view(np.uint8).reshape(len(rows), self._trailer.itemsize))
        return pc.binary_join_element_wise(encoded, tails, EMPTY)

    def decode(self, values: pa.BinaryArray) -> Remembered:
        """What values say.

        Requires: no nulls.

        :raises CorruptFile: they are not values of this processor
        """
        if self.fields is None:
            return Remembered(_positions(values) if self.position else None, None)
        types = [field.type for field in self.fields]
        arrays, ends, offsets = compact_row.decode_fields(values, types)
        if bool((offsets[1:] - ends != self._trailer.itemsize).any()):
            raise CorruptFile("<lookup value>", "a value's length does not fit its columns")
        _, data = offsets_and_bytes(values)
        trailer = rows_at(data, ends, self._trailer.itemsize).reshape(-1).view(self._trailer)
        table = pa.Table.from_arrays(arrays, schema=arrow_schema(self.fields))
        kinds = trailer["kind"].astype(np.int8)
        rows = KeyValues(table, trailer["sequence"].astype(np.int64), kinds if kinds.any() else None)
        return Remembered(trailer["position"].astype(np.int64) if self.position else None, rows)

    @property
    def _trailer(self) -> np.dtype[np.void]:
        position = [("position", "<i8")] if self.position else []
        return np.dtype([*position, ("sequence", "<i8"), ("kind", "i1")])


def _positions(values: pa.BinaryArray) -> Int64s:
    offsets, data = offsets_and_bytes(values)
    if not len(values):
        return np.empty(0, np.int64)
    if int(np.diff(offsets).min()) < 1:
        raise CorruptFile("<lookup value>", "a position is empty")
    positions, ends = read_varints(data, offsets[:-1], 9)
    if bool((ends != offsets[1:]).any()) or bool((positions < 0).any()):
        raise CorruptFile("<lookup value>", "a position does not end where its value does")
    return positions


def value_processor(schema: TableSchema, fields: Sequence[DataField] | None = None) -> ValueProcessor:
    """What the compaction of a table needs to remember; ``fields`` are the columns it asks for (None: all).

    First-row tables ask only whether a key exists. Deletion vectors need positions, and values besides if the older row
    takes part in the merge or in a changelog. All others need values.
    """
    options = schema.options
    engine = options.get_option(MERGE_ENGINE)
    if engine == "first-row":
        return ValueProcessor(None, False)
    vectors = options.get_option(DELETION_VECTORS)
    merges = engine != "deduplicate" or bool(options.get_option(SEQUENCE_FIELD))
    if vectors and not merges and options.get_option(CHANGELOG_PRODUCER) != "lookup":
        return ValueProcessor(None, True)
    return ValueProcessor(tuple(schema.fields if fields is None else fields), vectors)
