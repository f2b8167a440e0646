"""The slots of an index section: how many there are, and where a key is looked for first. Format: ``hash_layout``."""

from __future__ import annotations

import numpy as np

from paimon_spark.rows.byte_strings import Int32s, Int64s


def slot_count(keys: int, load_factor: float) -> int:
    """How many slots a section of ``keys`` keys has (Java's Math.round: halves go up)."""
    return int(np.floor(keys / load_factor + 0.5))


def home_slots(hashes: Int32s, slots: int) -> Int64s:
    """The slot in which a key of each hash is looked for first."""
    positive = (hashes & np.int32(0x7FFFFFFF)).view(np.uint32)
    size = np.uint32(slots)
    homes: Int64s = (positive - positive // size * size).astype(np.int64)
    return homes
