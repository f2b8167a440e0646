"""Whatever a writer is given, a reader gives back."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.statistics import column_statistics
from paimon_spark.types import DataField, DataType, arrow_schema, arrow_type, parse_type
from tests.files.tables import read, schema_of, write

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
FLAT = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(9, 2)": st.decimals(-9999999, 9999999, places=2),
    "DECIMAL(18, 0)": st.decimals(-(10**17), 10**17, places=0),
    "DECIMAL(38, 18)": st.decimals(-(10**19), 10**19, places=18),
    "CHAR(5)": TEXT,
    "STRING": TEXT,
    "BYTES": st.binary(max_size=20),
    "BINARY(3)": st.binary(min_size=3, max_size=3),
    "DATE": st.integers(-700_000, 2_900_000),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(3)": st.integers(-(6 * 10**13), 10**14),
    "TIMESTAMP(6)": st.integers(-(6 * 10**16), 10**17),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.integers(-(6 * 10**16), 10**17),
}


@st.composite
def _type(draw: st.DrawFn, ids: list[int], depth: int = 0) -> tuple[DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["flat"] * 5 + (["array", "map", "multiset", "row"] if depth < 2 else [])))
    if kind == "flat":
        name = draw(st.sampled_from(sorted(FLAT)))
        return parse_type(name), FLAT[name]
    if kind == "row":
        members = []
        strategies = {}
        for i in range(draw(st.integers(1, 3))):
            ids[0] += 1
            own = ids[0]
            type_, values = draw(_type(ids, depth + 1))
            members.append(DataField(own, f"m{i}", type_))
            strategies[f"m{i}"] = st.none() | values
        return DataType("ROW", fields=tuple(members)), st.fixed_dictionaries(strategies)
    element, values = draw(_type(ids, depth + 1))
    if kind == "array":
        return DataType("ARRAY", element=element), st.lists(st.none() | values, max_size=3)
    keys = st.lists(FLAT["INT"], max_size=3, unique=True)
    if kind == "map":
        pairs = keys.flatmap(lambda ks: st.tuples(*(st.tuples(st.just(k), st.none() | values) for k in ks)))
        return DataType("MAP", key=parse_type("INT NOT NULL"), element=element), pairs.map(list)
    counts = keys.map(lambda ks: [(k, abs(k) % 9) for k in ks])
    return DataType("MULTISET", element=parse_type("INT NOT NULL")), counts


@st.composite
def _tables(draw: st.DrawFn) -> tuple[tuple[DataField, ...], pa.Table, np.ndarray[Any, Any]]:
    rows = draw(st.integers(1, 12))
    fields, columns, ids = [DataField(0, "k", parse_type("INT NOT NULL"))], [pa.array(range(rows), pa.int32())], [0]
    for i in range(draw(st.integers(1, 4))):
        ids[0] += 1
        own = ids[0]
        type_, values = draw(_type(ids))
        fields.append(DataField(own, f"c{i}", type_))
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns.append(pa.array(drawn, arrow_type(type_)))
    kinds = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)), np.int8)
    return tuple(fields), pa.table(columns, schema=arrow_schema(fields)), kinds


def _same(a: pa.Table, b: pa.Table) -> bool:
    return a.schema.equals(b.schema) and str(a.to_pydict()) == str(b.to_pydict())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(_tables(), st.integers(1, 12), st.sampled_from(["zstd", "none", "lz4"]))
def test_write_then_read(drawn: tuple[Any, ...], cut: int, codec: str) -> None:
    fields, table, kinds = drawn
    schema = schema_of(fields, file_compression=codec)
    rows = KeyValues(table, np.arange(table.num_rows) * 7, kinds)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        parts = [rows.slice(0, cut), rows.slice(min(cut, len(rows)), len(rows))]
        (file,) = write(directory, schema, *parts)
        back = read(directory, file, schema, batch_rows=5)
        assert _same(back.values, table)
        assert back.sequence is not None
        assert back.sequence.tolist() == (np.arange(table.num_rows) * 7).tolist()
        assert (np.zeros(len(rows)) if back.kind is None else back.kind).tolist() == kinds.tolist()
        for field in fields:
            values = [v for v in table.column(field.name).to_pylist() if v is not None]
            lower, upper, nulls, _ = column_statistics([file], lambda _: schema, field, key=False)
            assert nulls[0].as_py() in (None, table.column(field.name).null_count)
            low, high = lower[0].as_py(), upper[0].as_py()
            if low is not None and not any(isinstance(v, float) and math.isnan(v) for v in values):
                assert low <= min(values)
                assert max(values) <= high
