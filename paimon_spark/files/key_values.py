"""KeyValues: the one shape of data between files, merge engines, buffers and readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import UnsupportedFeature

Int64Array = npt.NDArray[np.int64]
Int8Array = npt.NDArray[np.int8]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3


@dataclass(frozen=True)
class KeyValues:
    """Rows of a primary-key table: their values, sequence numbers and kinds.

    ``values`` holds table columns only, primary-key columns included (a file's ``_KEY_*`` columns are copies of
    them). ``sequence`` is None when the rows' positions are already their order of age. ``kind`` (0 +I, 1 -U,
    2 +U, 3 -D) is None when every row is an add.
    """

    values: pa.Table
    sequence: Int64Array | None = None
    kind: Int8Array | None = None

    def __len__(self) -> int:
        return int(self.values.num_rows)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows refer to (of sliced buffers, the slices)."""
        arrays = (a for a in (self.sequence, self.kind) if a is not None)
        return int(self.values.nbytes) + sum(a.nbytes for a in arrays)

    def take(self, rows: Int64Array) -> KeyValues:
        """The rows at those positions, in that order.

        :raises UnsupportedFeature: one column of them holds more than 2 GB of text or bytes
        """
        try:
            values = self.values.take(to_arrow(rows))
        except pa.ArrowInvalid as problem:
            raise UnsupportedFeature(
                f"{len(rows)} rows that are merged together hold more than 2 GB in one column ({problem}); rows as "
                "wide as that are merged only a few at a time"
            ) from None
        return KeyValues(
            values,
            None if self.sequence is None else self.sequence[rows],
            None if self.kind is None else self.kind[rows],
        )

    def slice(self, start: int, stop: int) -> KeyValues:
        """Rows ``start`` to ``stop`` (exclusive), without a copy."""
        return KeyValues(
            self.values.slice(start, stop - start),
            None if self.sequence is None else self.sequence[start:stop],
            None if self.kind is None else self.kind[start:stop],
        )

    def with_sequence(self, sequence: Int64Array) -> KeyValues:
        """The same rows with those sequence numbers."""
        return KeyValues(self.values, sequence, self.kind)

    def is_retract(self) -> npt.NDArray[np.bool_] | None:
        """Which rows are -U or -D; None when none is."""
        return None if self.kind is None else (self.kind & 1) == 1


def concat(parts: Sequence[KeyValues]) -> KeyValues:
    """The parts one after another.

    Requires: at least one part; either all or none have sequence numbers.
    """
    if len(parts) == 1:
        return parts[0]
    sequences = [p.sequence for p in parts if p.sequence is not None]
    kinds = [np.zeros(len(p), np.int8) if p.kind is None else p.kind for p in parts]
    return KeyValues(
        pa.concat_tables([p.values for p in parts]),
        np.concatenate(sequences) if sequences else None,
        None if all(p.kind is None for p in parts) else np.concatenate(kinds),
    )
