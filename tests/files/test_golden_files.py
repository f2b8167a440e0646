"""Files that Java wrote, one by one: every row, key bound, count and statistic."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.files.key_values import concat
from paimon_spark.files.reader import read_data_file
from paimon_spark.files.statistics import (
    FULL_MODE,
    ColumnStatistics,
    column_statistics,
    serialize_statistics,
    statistics_modes,
)
from paimon_spark.rows.binary_row import decode, serialize
from paimon_spark.types import BINARIES
from tests.files.tables import STORAGE, GoldenFile, expected_steps, golden_files, golden_table_metadata
from tests.java.rows import assert_same_rows, golden_table

DATA = Path(__file__).parent.parent / "data"


def _cases() -> list[str]:
    cases = []
    for archive in ("java-0.9", "java-2.0"):
        with tarfile.open(DATA / "golden" / f"{archive}.tar.gz") as tar:
            cases += sorted(n.removesuffix("/script.json") for n in tar.getnames() if n.endswith("/script.json"))
    return cases


CASES = _cases()


def _rows(golden: GoldenFile, **arguments: Any) -> Any:
    path = f"{golden.directory}/{golden.file.name}"
    arguments = {"data_schema": golden.schema, "fields": golden.schema.fields} | arguments
    return concat(list(read_data_file(STORAGE, path, golden.file, **arguments)))


@pytest.mark.parametrize("case", CASES)
def test_every_file_agrees_with_its_metadata(golden: Path, case: str) -> None:
    files = golden_files(golden / case)
    assert files
    for one in files:
        rows, file = _rows(one), one.file
        keys = [rows.values.column(f.name) for f in one.schema.key_fields]
        ends = [pa.chunked_array([c.slice(0, 1).combine_chunks(), c.slice(len(c) - 1).combine_chunks()]) for c in keys]
        types = [f.type for f in one.schema.key_fields]
        assert len(rows) == file.row_count
        bounds = [a.to_pylist() for a in decode([file.min_key, file.max_key], types)]
        first, last = zip(*(c.to_pylist() for c in ends), strict=True)
        lower, upper = zip(*bounds, strict=True)
        if file.level == 0:
            assert (first, last) == (lower, upper)
        else:  # Java 0.9 leaves the key of a dropped delete in the bounds of a compacted file
            assert lower <= first <= last <= upper
        assert rows.sequence is not None
        assert (rows.sequence.min(), rows.sequence.max()) == (file.min_sequence, file.max_sequence)
        retracts = rows.is_retract()
        assert (0 if retracts is None else int(retracts.sum())) == file.delete_row_count


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("java", ["java-0.9", "java-2.0"])
def test_every_type_decodes_to_javas_values(golden: Path, java: str, format_: str) -> None:
    case = golden / java / f"all_types_{format_}"
    steps = [s for s in expected_steps(case) if all(split["raw_convertible"] for split in s["splits"])]
    assert len(steps) == 2
    for step in steps:
        files = golden_files(case, step["snapshot"])
        for batch_rows in (65_536, 2):
            rows = pa.concat_tables([_rows(f, sequence=False, kind=False, batch_rows=batch_rows).values for f in files])
            assert_same_rows(rows, golden_table(step, rows.schema))


@pytest.mark.parametrize("java", ["java-0.9", "java-2.0"])
def test_files_of_all_schemas_follow_the_newest(golden: Path, java: str) -> None:
    case = golden / java / "schema_evolution"
    newest = golden_table_metadata(case).schemas.latest()
    assert newest is not None
    files = sorted((f for f in golden_files(case) if f.file.level == 0), key=lambda f: f.file.schema_id)
    assert [f.file.schema_id for f in files] == [0, 1, 2, 3, 4]
    tables = [_rows(f, fields=newest.fields).values for f in files]
    assert {str(t.schema) for t in tables} == {str(tables[0].schema)}
    assert tables[0].to_pylist() == [
        {"k": 1, "a": 1, "bb": "one", "f": 1.5, "c": None, "gone": None},
        {"k": 2, "a": 2, "bb": "two", "f": 2.5, "c": None, "gone": None},
    ]
    assert tables[1].to_pylist()[0] == {"k": 2, "a": None, "bb": "two-b", "f": None, "c": 2.25, "gone": None}
    assert tables[2].to_pylist()[0]["a"] == 10**12


@pytest.mark.parametrize(
    "case", [c for c in CASES if "all_types_parquet" in c or "stats_modes" in c or "pk_types" in c]
)
def test_statistics_are_those_that_java_gathered(golden: Path, case: str) -> None:
    for one in golden_files(golden / case):
        fields = one.schema.fields
        rows = _rows(one).values
        columns = []
        for field, mode in zip(fields, statistics_modes(fields, one.schema.options), strict=True):
            statistics = ColumnStatistics(field.type, mode)
            statistics.update(rows.column(field.name).slice(0, len(rows) // 2))
            statistics.update(rows.column(field.name).slice(len(rows) // 2))
            columns.append(statistics)
        names = one.file.value_stats_cols or tuple(f.name for f in fields)
        kept = [i for i, f in enumerate(fields) if f.name in names]
        ours = serialize_statistics([fields[i].type for i in kept], [columns[i] for i in kept])
        types = [fields[i].type.as_nullable() for i in kept]
        without_bytes = case.startswith("java-0.9")  # which keeps no bounds of binary columns
        compared = [n for n, t in enumerate(types) if not (without_bytes and t.root in BINARIES)]
        assert ours.null_counts == one.file.value_stats.null_counts
        for own, java in ((ours.lower, one.file.value_stats.lower), (ours.upper, one.file.value_stats.upper)):
            ours_decoded, javas = decode([own], types, compared), decode([java], types, compared)
            assert [a.to_pylist() for a in ours_decoded] == [a.to_pylist() for a in javas]


@pytest.mark.parametrize("java", ["java-0.9", "java-2.0"])
def test_statistics_of_truncated_texts(golden: Path, java: str) -> None:
    (one,) = golden_files(golden / java / "stats_modes")
    table = one.table.schemas
    bounds = {f.name: column_statistics([one.file], table.get, f, key=False) for f in one.schema.fields}
    shown = {
        name: (low[0].as_py(), high[0].as_py(), nulls[0].as_py()) for name, (low, high, nulls, _) in bounds.items()
    }
    assert shown["k"] == ("a" * 16, "z" * 15 + "{", 0)
    assert shown["long_s"] == ("a long string th", "ÿ日本語日本語日本語日本語日本誟", 1)
    assert shown["full_s"][1] == "z" * 50
    assert shown["cnt"] == (None, None, 1)
    assert shown["none_i"] == (None, None, None)
    assert shown["bytes"] == (None, None, 1)


@pytest.mark.parametrize("java", ["java-0.9", "java-2.0"])
def test_statistics_across_schemas(golden: Path, java: str) -> None:
    case = golden / java / "schema_evolution"
    newest = golden_table_metadata(case).schemas.latest()
    assert newest is not None
    files = [f.file for f in golden_files(case) if f.file.level == 0]
    get = golden_table_metadata(case).schemas.get

    def of(name: str) -> list[tuple[Any, ...]]:
        return [
            tuple(x.as_py() for x in row)
            for row in zip(*column_statistics(files, get, newest.field(name), False), strict=True)
        ]

    by_schema = dict(zip([f.schema_id for f in files], of("bb"), strict=True))
    assert by_schema[0] == ("one", "two", 0, 2)
    assert by_schema[4][2:] == (by_schema[4][2], next(f.row_count for f in files if f.schema_id == 4))
    gone = dict(zip([f.schema_id for f in files], of("gone"), strict=True))
    assert all(gone[i] == (None, None, rows, rows) for i in range(4) for rows in [gone[i][3]])
    a = dict(zip([f.schema_id for f in files], of("a"), strict=True))
    assert a[0][:3] == (None, None, 0)
    assert a[2][:3] == (4, 10**12, 0)
    lower, upper, nulls, _ = column_statistics(files, get, newest.field("k"), key=True)
    assert lower.to_pylist() == [decode([f.min_key], [newest.field("k").type])[0][0].as_py() for f in files]
    assert upper.to_pylist() == [decode([f.max_key], [newest.field("k").type])[0][0].as_py() for f in files]
    assert nulls.to_pylist() == [0] * len(files)


@pytest.mark.parametrize("case", [c for c in CASES if c in ("java-2.0/all_types_parquet", "java-2.0/pk_types")])
def test_key_statistics_are_those_that_java_gathered(golden: Path, case: str) -> None:
    for one in golden_files(golden / case):
        rows = _rows(one).values
        columns = [ColumnStatistics(f.type, FULL_MODE) for f in one.schema.key_fields]
        for statistics, field in zip(columns, one.schema.key_fields, strict=True):
            statistics.update(rows.column(field.name))
        types = [f.type for f in one.schema.key_fields]
        ours = serialize_statistics(types, columns)
        assert ours == one.file.key_stats
        assert serialize([c.bounds()[0] for c in columns], types)[0] == one.file.key_stats.lower
