"""Random columns of every type, with nulls and as slices, for hypothesis and by a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from paimon_spark.types import BINARIES, INTEGER_BITS, STRINGS, DataField, DataType, arrow_type, parse_type

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


def array(element: DataType) -> DataType:
    """The type of lists of ``element``."""
    return DataType("ARRAY", element=element)


def mapping(key: DataType, value: DataType) -> DataType:
    """The type of maps from ``key`` to ``value``."""
    return DataType("MAP", key=key.not_null(), element=value)


def row(*types: DataType) -> DataType:
    """The type of rows of those members."""
    return DataType("ROW", fields=tuple(DataField(100 + i, f"f{i}", type_) for i, type_ in enumerate(types)))


_INT, _TEXT_TYPE = parse_type("INT"), parse_type("STRING")
# A null of these takes room in the rows of Java 1.3 and later, and none in those of the versions before.
_WIDE = ["DECIMAL(19, 4)", "DECIMAL(38, 10)", "TIMESTAMP(6)"]
_MEMBERS = [
    *(type_ for type_ in TYPES if str(type_) not in _WIDE and type_.precision != 9),
    *(parse_type(name).not_null() for name in [*_WIDE, "STRING", "BIGINT"]),
    array(_INT).not_null(),
]
NESTED_TYPES = [
    *(array(type_) for type_ in TYPES),
    *(mapping(key, type_) for key, type_ in zip(TYPES, reversed(TYPES), strict=True)),
    row(*_MEMBERS),
    array(row(*_MEMBERS)),
    array(array(_TEXT_TYPE)),
    mapping(_TEXT_TYPE, array(row(_INT, array(_TEXT_TYPE)))),
    row(_INT, row(_TEXT_TYPE, row(*_MEMBERS).not_null()), array(mapping(_INT, _TEXT_TYPE))),
    array(row(row(_TEXT_TYPE, _INT), mapping(_TEXT_TYPE, parse_type("DOUBLE")))),
    DataType("MULTISET", element=_TEXT_TYPE.not_null()),
    array(DataType("MULTISET", element=_INT.not_null())),
]
ROWS_OF_WIDE_TYPES = array(row(_INT, *(parse_type(name) for name in [*_WIDE, "TIMESTAMP(9)"]), _TEXT_TYPE))

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


def array_of(values: Sequence[Any], type_: DataType) -> pa.Array:
    """A column of values as :func:`values_of` draws them or :func:`random_value` chooses them, and None."""
    arrow = arrow_type(type_)
    if type_.root == "ROW":
        members = [
            array_of([_default(field.type) if v is None else v[i] for v in values], field.type)
            for i, field in enumerate(type_.fields)
        ]
        return pa.Array.from_buffers(arrow, len(values), [_validity(values)], children=members)
    if type_.root in ("ARRAY", "MAP", "MULTISET"):
        entries = [entry for value in values if value is not None for entry in value]
        offsets = np.cumsum([0, *(0 if value is None else len(value) for value in values)]).astype(np.int32)
        entry = pa.struct([arrow.key_field, arrow.item_field]) if pa.types.is_map(arrow) else None
        if entry is None:
            child = array_of(entries, type_.element_type())
        else:
            key, value = (type_.key, type_.element) if type_.root == "MAP" else (type_.element, _INT.not_null())
            assert key is not None
            assert value is not None
            parts = [array_of([e[0] for e in entries], key), array_of([e[1] for e in entries], value)]
            child = pa.Array.from_buffers(entry, len(entries), [None], children=parts)
        return pa.Array.from_buffers(arrow, len(values), [_validity(values), pa.py_buffer(offsets)], children=[child])
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


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    present = np.array([value is not None for value in values], np.bool_)
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _default(type_: DataType) -> Any:
    """What stands under a null row: null, or some value of a type without nulls."""
    if type_.nullable:
        return None
    if type_.root == "ROW":
        return tuple(_default(field.type) for field in type_.fields)
    return "under a null" if type_.root in STRINGS else [] if type_.root in ("ARRAY", "MAP", "MULTISET") else 7


def random_value(chance: random.Random, type_: DataType, nulls: float = 0.2) -> Any:
    """A value of any type, or None where the type allows it; floats as bits, times as integers, none before 1970 (on
    which Java's bridge to Arrow fails)."""
    if type_.nullable and chance.random() < nulls:
        return None
    root = type_.root
    size = chance.choice([0, 1, 2, 3, 5, 33, 64]) if chance.random() < 0.3 else chance.randrange(4)
    if root == "ROW":
        return tuple(random_value(chance, field.type, nulls) for field in type_.fields)
    if root == "ARRAY":
        return [random_value(chance, type_.element_type(), nulls) for _ in range(size)]
    if root in ("MAP", "MULTISET"):
        key = (type_.key if root == "MAP" else type_.element) or _INT
        value = type_.element_type() if root == "MAP" else _INT.not_null()
        keys = dict.fromkeys(random_value(chance, key.not_null()) for _ in range(size))
        return [(k, random_value(chance, value, nulls)) for k in keys]
    return _random_scalar(chance, type_)


def _random_scalar(chance: random.Random, type_: DataType) -> Any:
    root = type_.root
    if root == "BOOLEAN":
        return chance.random() < 0.5
    if root in STRINGS:
        return "".join(chance.choice("abc\0é中🦆") for _ in range(chance.choice([0, 1, 3, 7, 8, 9, 20])))
    if root in BINARIES:
        return chance.randbytes(chance.choice([0, 1, 4, 7, 8, 9, 20]))
    if root == "DECIMAL":
        digits = chance.randint(1, type_.precision or 1)
        return Decimal(f"{chance.randint(-(10**digits) + 1, 10**digits - 1)}E-{type_.scale}")
    if root in ("FLOAT", "DOUBLE"):
        number = chance.choice([0.0, -0.0, 1.5, -2.25, float("inf"), chance.uniform(-1e9, 1e9)])
        code = "<f" if root == "FLOAT" else "<d"
        return int.from_bytes(struct.pack(code, number), "little")
    if root == "TIME":
        return chance.randrange(86_400_000)
    if root == "DATE":
        return chance.randint(-100_000, 100_000)
    if root.startswith("TIMESTAMP"):
        unit = {"ms": 10**3, "us": 10**6, "ns": 10**9}[arrow_type(type_).unit]
        whole = chance.randrange(2 * 10**9) * unit
        return whole if (type_.precision or 0) == 0 else whole + chance.randrange(unit)
    bits = INTEGER_BITS[root]
    return chance.choice([0, -1, chance.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)])


def comparable(array: pa.Array) -> list[Any]:
    """The values of a column of any type: floats as their bits, times as integers."""
    return [_plain(scalar) for scalar in array]


def _plain(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    type_ = scalar.type
    if pa.types.is_map(type_) or pa.types.is_list(type_):
        return [_plain(entry) for entry in scalar.values]
    if pa.types.is_struct(type_):
        return tuple(_plain(scalar[i]) for i in range(type_.num_fields))
    if pa.types.is_floating(type_):
        return struct.pack("<f" if type_ == pa.float32() else "<d", scalar.as_py())
    return scalar.value if pa.types.is_temporal(type_) else scalar.as_py()
