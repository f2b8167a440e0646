"""FileIndex: which file of a level can hold a key, for many keys at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import literal, to_numpy
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.lookup.key_search import search, search_keys
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.rows import binary_row, compact_row
from paimon_spark.rows.arrow_buffers import Column
from paimon_spark.rows.byte_strings import Int64s, Mask
from paimon_spark.types import DataType


class FileIndex:
    """The key ranges of a bucket's files. Keys are compact rows of the trimmed primary key."""

    def __init__(self, types: Sequence[DataType]) -> None:
        """An index for keys of those types."""
        self._types = tuple(types)
        self.order = CompactOrder(types)

    def keys(self, columns: Sequence[Column]) -> pa.BinaryArray:
        """The keys of these columns. All NaN are one key, as in a merge, and so have one form here: what is hashed has
        to be equal byte by byte.

        :raises InvalidInput: a column has another Arrow type
        """
        return compact_row.encode(
            [_with_one_nan(*pair) for pair in zip(columns, self._types, strict=True)], self._types
        )

    def sort(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Files of a level above 0 in key order."""
        least = self._bounds(files, [file.min_key for file in files])
        keys = search_keys(least)
        ranks = np.lexsort((keys.lengths_at(slice(None)), keys.values))
        return [files[i] for i in ranks.tolist()]

    def file_of(self, files: Sequence[DataFile], keys: pa.BinaryArray) -> Int64s:
        """For each key, the number of the first file whose greatest key is not less; ``len(files)`` when there is none.

        Requires: ``files`` in key order, their ranges disjoint.
        """
        bounds = search_keys(self._bounds(files, [file.max_key for file in files]))
        return search(bounds, search_keys(self.order.normalize(keys), bounds.form))[0]

    def inside(self, file: DataFile, keys: pa.BinaryArray) -> Mask:
        """Which keys lie between the least and the greatest key of a file."""
        ends = [file.min_key, file.max_key][: 1 if file.min_key == file.max_key else 2]
        bounds = search_keys(self._bounds([file] * len(ends), ends))
        at, equal = search(bounds, search_keys(self.order.normalize(keys), bounds.form))
        inside: Mask = (at == 1) & (len(bounds.values) == 2) | equal
        return inside

    def _bounds(self, files: Sequence[DataFile], rows: Sequence[bytes]) -> pa.BinaryArray | Int64s:
        """The order of these keys, one of each of ``files``.

        :raises CorruptFile: a key has a null where none may be
        """
        columns = binary_row.decode(rows, self._types)
        for column, type_ in zip(columns, self._types, strict=True):
            if column.null_count and not type_.nullable:
                file = files[int(np.argmax(to_numpy(column.is_null())))]
                raise CorruptFile(file.name, f"its least or greatest key is null where keys are {type_}")
        return self.order.normalize(compact_row.encode(columns, self._types))


def _with_one_nan(column: Column, type_: DataType) -> Column:
    if type_.root not in ("FLOAT", "DOUBLE") or not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), literal(float("nan"), column.type), column)
