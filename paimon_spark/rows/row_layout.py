"""What the BinaryRow writer and reader share: the size of a row's head and which types have a piece."""

from __future__ import annotations

from paimon_spark.rows.arrow_buffers import is_bytes
from paimon_spark.types import TIMESTAMPS, DataType


def header_words(arity: int) -> int:
    """Words of the row kind and null bits of a row of ``arity`` fields."""
    return (arity + 63 + 8) // 64


def is_wide_decimal(type_: DataType) -> bool:
    """Whether values are decimals that no int64 holds."""
    return type_.root == "DECIMAL" and (type_.precision or 0) > 18


def is_wide_timestamp(type_: DataType) -> bool:
    """Whether values are timestamps finer than a millisecond."""
    return type_.root in TIMESTAMPS and (type_.precision or 0) > 3


def has_piece(type_: DataType) -> bool:
    """Whether values of ``type_`` may reach beyond their slot."""
    return is_bytes(type_) or is_wide_decimal(type_) or is_wide_timestamp(type_)
