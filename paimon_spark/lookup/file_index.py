"""FileIndex: which file of a level can hold a key, for many keys at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.lookup.key_search import search, search_keys
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.rows import binary_row, compact_row
from paimon_spark.rows.byte_strings import Int64s, Mask
from paimon_spark.types import DataType


class FileIndex:
    """The key ranges of a bucket's files. Keys are compact rows of the trimmed primary key."""

    def __init__(self, types: Sequence[DataType]) -> None:
        """An index for keys of those types."""
        self._types = tuple(types)
        self.order = CompactOrder(types)

    def sort(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Files of a level above 0 in key order."""
        least = self._bounds([file.min_key for file in files])
        keys = search_keys(least)
        ranks = np.lexsort((keys.lengths_at(slice(None)), keys.values))
        return [files[i] for i in ranks.tolist()]

    def file_of(self, files: Sequence[DataFile], keys: pa.BinaryArray) -> Int64s:
        """For each key, the number of the first file whose greatest key is not less; ``len(files)`` when there is none.

        Requires: ``files`` in key order, their ranges disjoint.
        """
        bounds = search_keys(self._bounds([file.max_key for file in files]))
        return search(bounds, search_keys(self.order.normalize(keys), bounds.form))[0]

    def inside(self, file: DataFile, keys: pa.BinaryArray) -> Mask:
        """Which keys lie between the least and the greatest key of a file."""
        bounds = search_keys(self._bounds([file.min_key, file.max_key][: 1 if file.min_key == file.max_key else 2]))
        at, equal = search(bounds, search_keys(self.order.normalize(keys), bounds.form))
        inside: Mask = (at == 1) & (len(bounds.values) == 2) | equal
        return inside

    def _bounds(self, rows: Sequence[bytes]) -> pa.BinaryArray | Int64s:
        columns = binary_row.decode(rows, self._types)
        return self.order.normalize(compact_row.encode(columns, self._types))
