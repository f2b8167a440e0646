"""OrcInput: reading ORC files. A batch is a stripe or a part of one; ORC has no page checksums.

ORC pads CHAR values with blanks. They are taken off again, as Java does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.predicate import BoolArray, Predicate
from paimon_spark.types import DataField, DataType


class OrcInput:
    """An open ORC file. Stripes are decoded whole. ``fields`` are the columns of the schema it was written with."""

    def __init__(self, source: pa.NativeFile, fields: Sequence[DataField]) -> None:
        from pyarrow import orc

        self._file = orc.ORCFile(source)
        self._names: list[str] = self._file.schema.names
        self._padded = frozenset(f.name for f in fields if f.type.root == "CHAR")
        self._refused = frozenset(f.name for f in fields if f.type.root != "CHAR" and _holds_char(f.type))

    @property
    def columns(self) -> Collection[str]:
        """Names of the columns in the file."""
        return self._names

    @property
    def group_rows(self) -> Sequence[int]:
        """Number of rows of each stripe."""
        if self._file.nstripes == 1:
            return [self._file.nrows]
        first = self._names[:1]
        return [self._file.read_stripe(i, columns=first).num_rows for i in range(self._file.nstripes)]

    def may_match(self, predicate: Predicate, columns: Mapping[str, str]) -> BoolArray:
        """All stripes: pyarrow does not show their statistics."""
        return np.ones(self._file.nstripes, np.bool_)

    def batches(self, columns: Sequence[str], groups: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of ``groups`` in order.

        :raises UnsupportedFeature: CHAR inside a nested column
        """
        for column in self._refused.intersection(columns):
            raise UnsupportedFeature(f"column {column}: CHAR inside of nested types is not read from ORC files")
        for group in groups:
            stripe = self._trimmed(self._file.read_stripe(group, columns=list(columns)))
            for start in range(0, stripe.num_rows, batch_rows):
                yield stripe.slice(start, batch_rows)

    def _trimmed(self, stripe: pa.RecordBatch) -> pa.RecordBatch:
        names = stripe.schema.names
        columns = [
            pc.utf8_rtrim(column, " ") if name in self._padded else column
            for name, column in zip(names, stripe.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names)


def _holds_char(type_: DataType) -> bool:
    inner = [t for t in (type_.key, type_.element, *(f.type for f in type_.fields)) if t is not None]
    return type_.root == "CHAR" or any(_holds_char(t) for t in inner)
