"""OrcInput: reading ORC files. A batch is a stripe or a part of one; ORC has no page checksums."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.predicate import BoolArray, Predicate


class OrcInput:
    """An open ORC file. Stripes are decoded whole."""

    def __init__(self, source: pa.NativeFile) -> None:
        from pyarrow import orc

        self._file = orc.ORCFile(source)
        self._names: list[str] = self._file.schema.names

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
        """The rows of ``groups`` in order."""
        for group in groups:
            stripe = self._file.read_stripe(group, columns=list(columns))
            for start in range(0, stripe.num_rows, batch_rows):
                yield stripe.slice(start, batch_rows)
