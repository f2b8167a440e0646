"""What the writers and readers of binary rows and arrays share: where slots begin, and which types have a piece."""

from __future__ import annotations

from paimon_spark.rows.arrow_buffers import Int64Array, is_bytes
from paimon_spark.types import NESTED, TIMESTAMPS, DataType

_NARROW = {
    **dict.fromkeys(("BOOLEAN", "TINYINT"), 1),
    "SMALLINT": 2,
    **dict.fromkeys(("INT", "DATE", "TIME", "FLOAT"), 4),
}


def header_words(arity: int) -> int:
    """Words of the row kind and null bits of a row of ``arity`` fields."""
    return (arity + 63 + 8) // 64


def nulls_end(counts: Int64Array) -> Int64Array:
    """Bytes before the slots of arrays of that many elements: their number and null bits."""
    return 4 + (counts + 31) // 32 * 4


def element_bytes(type_: DataType) -> int:
    """Bytes of a slot in an array of ``type_``."""
    return _NARROW.get(type_.root, 8)


def is_wide_decimal(type_: DataType) -> bool:
    """Whether values are decimals that no int64 holds."""
    return type_.root == "DECIMAL" and (type_.precision or 0) > 18


def is_wide_timestamp(type_: DataType) -> bool:
    """Whether values are timestamps finer than a millisecond."""
    return type_.root in TIMESTAMPS and (type_.precision or 0) > 3


def has_piece(type_: DataType) -> bool:
    """Whether values of ``type_`` may reach beyond their slot."""
    return is_bytes(type_) or is_wide_decimal(type_) or is_wide_timestamp(type_) or type_.root in NESTED
