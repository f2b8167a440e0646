"""UserSequence: the columns of ``sequence.field``, which say which version of a row is newer.

Versions compare column by column; null is the oldest value in both directions.

Source: ``UserDefinedSeqComparator`` of Apache Paimon.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.files.key_values import Int64Array
from paimon_spark.merge.keys import normalize_sequence
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import SEQUENCE_FIELD, SEQUENCE_ORDER
from paimon_spark.types import DataField


@dataclass(frozen=True)
class UserSequence:
    """Sequence columns, most important first; ``descending`` makes smaller values the newer ones."""

    fields: tuple[DataField, ...]
    descending: bool

    @property
    def names(self) -> frozenset[str]:
        """The names of the columns."""
        return frozenset(f.name for f in self.fields)

    def ranks(self, values: pa.Table) -> Int64Array:
        """A number for each row, greater for newer, comparable among these rows only."""
        columns = [values.column(f.name) for f in self.fields]
        return normalize_sequence(columns, [f.type for f in self.fields], self.descending)


def user_sequence(schema: TableSchema) -> UserSequence | None:
    """The table's ``sequence.field``; None when sequence numbers alone decide.

    :raises InvalidInput: an unknown column
    """
    names = schema.options.get_option(SEQUENCE_FIELD)
    if not names:
        return None
    descending = schema.options.get_option(SEQUENCE_ORDER) == "descending"
    return UserSequence(tuple(schema.field(name) for name in names), descending)
