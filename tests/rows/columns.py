"""Random columns of every scalar type, with nulls and as slices, for hypothesis."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from paimon_spark.types import BINARIES, INTEGER_BITS, STRINGS, DataType, arrow_type, parse_type

TYPES = [
    parse_type(name)
    for name in (
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(9, 2)",
        "DECIMAL(18, 0)",
        "DECIMAL(19, 4)",
        "DECIMAL(38, 10)",
        "CHAR(3)",
        "STRING",
        "BINARY(4)",
        "BYTES",
        "DATE",
        "TIME(3)",
        "TIMESTAMP(0)",
        "TIMESTAMP(3)",
        "TIMESTAMP(6)",
        "TIMESTAMP(9)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    )
]

_CHARACTERS = st.sampled_from("\0\x01ab~\x7fé߿ࠀ中\uffff\U00010000🦆\U0010ffff") | st.characters(
    exclude_categories=["Cs"]
)
_TEXT = st.text(_CHARACTERS, max_size=12) | st.text(st.sampled_from("\0a"), max_size=80)
_BYTES = st.binary(max_size=20) | st.binary(min_size=60, max_size=70)


def _near(low: int, high: int) -> st.SearchStrategy[int]:
    edges = [x for x in (low, low + 1, -256, -2, -1, 0, 1, 2, 255, high - 1, high) if low <= x <= high]
    return st.sampled_from(edges) | st.integers(low, high)


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    """Values of ``type_``: integers in the Arrow type's unit for temporal types, bits for floats."""
    root = type_.root
    if root == "BOOLEAN":
        return st.booleans()
    if root in STRINGS:
        return _TEXT
    if root in BINARIES:
        return _BYTES
    if root == "DECIMAL":
        limit = 10 ** (type_.precision or 0) - 1
        return _near(-limit, limit).map(lambda n: Decimal(f"{n}E-{type_.scale}"))
    if root in ("FLOAT", "DOUBLE"):
        width = 32 if root == "FLOAT" else 64
        dtype = np.dtype(f"f{width // 8}")
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5, -1.5]
        edges = [int(np.array(x, dtype).view(f"u{width // 8}")) for x in special]
        payloads = [edges[4] + 1, edges[5] + 1, edges[2] + 1, edges[3] + 1]
        return st.sampled_from(edges + payloads) | st.integers(0, 2**width - 1)
    bits = INTEGER_BITS.get(root, 32 if root in ("DATE", "TIME") else 64)
    if root == "TIME":
        return _near(0, 86_399_999)
    if root.startswith("TIMESTAMP") and (type_.precision or 0) > 3:
        return _near(-(2**63) + 10**7, 2**63 - 10**7)
    return _near(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def array_of(values: list[Any], type_: DataType) -> pa.Array:
    """A column of values as :func:`values_of` draws them, and None."""
    arrow = arrow_type(type_)
    if type_.root in ("FLOAT", "DOUBLE"):
        mask = np.array([v is None for v in values], bool)
        bits = np.array([v or 0 for v in values], f"u{arrow.bit_width // 8}")
        return pa.array(bits.view(f"f{arrow.bit_width // 8}"), arrow, mask=mask, from_pandas=False)
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow)
    return pa.array(values, arrow)


@st.composite
def random_columns(
    draw: st.DrawFn, nullable: bool = True, max_columns: int = 5, max_rows: int = 12
) -> tuple[list[DataType], list[pa.Array]]:
    """Some types and a column of each, all of one length of at least one row, at times slices of longer ones."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=max_columns))
    rows = draw(st.integers(1, max_rows))
    columns = []
    for type_ in types:
        before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
        value = values_of(type_)
        drawn = draw(
            st.lists(value | st.none() if nullable else value, min_size=(n := before + rows + after), max_size=n)
        )
        columns.append(array_of(drawn, type_).slice(before, rows))
    return types, columns
