"""Reading one file: what is skipped, what is left out, what is refused."""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from paimon_spark.errors import CorruptFile, NotFound, UnsupportedFeature
from paimon_spark.files.row_groups import RowGroups
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.predicate import parse_predicate
from paimon_spark.types import DataField, arrow_schema, arrow_type, parse_type
from tests.files.tables import fields_of, numbered, read, read_parts, schema_of, write

FIELDS = fields_of(("k", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT"), ("f", "DOUBLE"))
ROWS = 10_000


@dataclass(frozen=True)
class Deleted:
    """Deleted positions; remembers nothing else."""

    positions: frozenset[int]

    def mask(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        return np.array([p not in self.positions for p in range(start, stop)], np.bool_)


def _table(rows: int = ROWS) -> pa.Table:
    keys = np.arange(rows)
    nulls = keys % 3 == 0
    values = [f"{k:08d}" for k in keys]
    n = pa.array((keys // 10).astype(np.int32), mask=nulls)
    return pa.table([keys, values, n, keys / 2], schema=arrow_schema(FIELDS))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DataFile, TableSchema]:
    """A file of ten row groups of 1000 rows."""
    directory = tmp_path_factory.mktemp("stored")
    schema = schema_of(FIELDS, file_block__size="1 b")
    kind = [0, 2, 3, 1] * (ROWS // 4)
    (file,) = write(directory, schema, numbered(_table(), kind))
    return directory, file, schema


Stored = tuple[Path, DataFile, TableSchema]


def test_all_rows_come_in_bounded_batches(stored: Stored) -> None:
    directory, file, schema = stored
    parts = list(read_parts(directory, file, schema, fields=FIELDS, batch_rows=300))
    assert max(len(p) for p in parts) == 300
    assert pa.concat_tables([p.values for p in parts]).equals(_table())
    assert np.concatenate([p.sequence for p in parts if p.sequence is not None]).tolist() == list(range(ROWS))
    kinds = [p.kind for p in parts]
    assert all(k is not None and k.dtype == np.int8 for k in kinds)
    assert kinds[0] is not None
    assert kinds[0][:4].tolist() == [0, 2, 3, 1]


def test_only_what_is_wanted_is_read(stored: Stored) -> None:
    directory, file, schema = stored
    rows = read(directory, file, schema, fields=[FIELDS[2], FIELDS[0]], sequence=False, kind=False)
    assert rows.values.equals(_table().select(["n", "k"]))
    assert rows.sequence is None
    assert rows.kind is None


def test_no_columns_at_all_still_counts_rows(stored: Stored) -> None:
    directory, file, schema = stored
    rows = list(read_parts(directory, file, schema, fields=[], sequence=False, kind=False))
    assert (sum(map(len, rows)), {part.values.num_columns for part in rows}) == (ROWS, {0})
    deletion = Deleted(frozenset([5]))
    left = read_parts(directory, file, schema, fields=[], sequence=False, kind=False, deletion=deletion)
    assert sum(map(len, left)) == ROWS - 1


def test_constants_are_filled_in(stored: Stored) -> None:
    directory, file, schema = stored
    rows = read(directory, file, schema, fields=FIELDS[:2], constants={"v": pa.scalar("same")})
    assert rows.values.column("v").unique().to_pylist() == ["same"]
    nothing = read(directory, file, schema, fields=FIELDS[:2], constants={"v": pa.scalar(None, pa.string())})
    assert nothing.values.column("v").null_count == ROWS
    only = read(
        directory, file, schema, fields=[FIELDS[1]], sequence=False, kind=False, constants={"v": pa.scalar("x")}
    )
    assert (len(only), only.values.column("v")[0].as_py()) == (ROWS, "x")


@pytest.mark.parametrize(
    ("filters", "groups"),
    [
        ([("k", ">=", 8500)], [8, 9]),
        ([("k", "==", 4321)], [4]),
        ([("k", "in", [1, 9999])], [0, 9]),
        ([("v", "starts with", "00003")], [3]),
        ([("v", "<", "00001")], [0]),
        ([("n", "<", 150)], [0, 1]),
        ([("n", "is null")], list(range(10))),
        ([("k", "<", 0)], []),
        ([[("k", "<", 10)], [("n", ">", 950)]], [0, 9]),
        ([("f", "<", 250.0)], [0]),
        ([("f", ">", 1e9)], list(range(10))),
    ],
)
def test_row_groups_are_skipped_by_their_statistics(stored: Stored, filters: list[object], groups: list[int]) -> None:
    directory, file, schema = stored
    predicate = parse_predicate(filters, FIELDS)
    parts = list(read_parts(directory, file, schema, fields=FIELDS, predicate=predicate, batch_rows=700))
    keys = [k for p in parts for k in p.values.column("k").to_pylist()]
    assert keys == [k for g in groups for k in range(g * 1000, g * 1000 + 1000)]


def test_predicates_on_columns_that_were_renamed_use_the_old_name(stored: Stored) -> None:
    directory, file, schema = stored
    renamed = [dataclasses.replace(FIELDS[0], name="id"), dataclasses.replace(FIELDS[1], name="k")]
    predicate = parse_predicate([("id", ">=", 9000), ("k", "<", "00009100")], renamed)
    rows = read(directory, file, schema, fields=renamed, predicate=predicate)
    assert rows.values.column_names == ["id", "k"]
    assert rows.values.column("id").to_pylist() == list(range(9000, 10000))


def test_predicates_on_columns_of_another_type_or_origin_skip_nothing(stored: Stored) -> None:
    directory, file, schema = stored
    fields = [
        FIELDS[0],
        dataclasses.replace(FIELDS[2], type=parse_type("STRING")),
        DataField(9, "v", parse_type("STRING")),
        DataField(10, "new", parse_type("INT")),
    ]
    filters = [("n", "==", "9"), ("v", "==", "no"), ("new", "==", 1)]
    predicate = parse_predicate(filters, fields)
    assert len(read(directory, file, schema, fields=fields, predicate=predicate)) == ROWS


@pytest.mark.parametrize(
    ("type_", "values", "value", "matches"),
    [
        ("DECIMAL(9, 2)", ["-3.50", "1.25"], "1.26", False),
        ("DECIMAL(9, 2)", ["-3.50", "1.25"], "-1.00", True),
        ("DECIMAL(30, 2)", ["-3.50", "1.25"], "-3.51", False),
        ("DATE", ["2024-01-01", "2024-01-03"], "2024-01-02", True),
        ("DATE", ["2024-01-01", "2024-01-03"], "2024-01-04", False),
        ("DATE", [0, 5_000_000], "2024-01-04", True),
        ("TIMESTAMP(6)", [0, 10**18], "2024-01-04T00:00:00", True),
        ("TIMESTAMP(6)", [0, 10**12], "2024-01-04T00:00:00", False),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [0, 10**12], "2024-01-04T00:00:00Z", False),
        ("TIME(3)", [0, 1000], datetime.time(0, 0, 2), False),
        ("BYTES", [b"a", b"c"], "62", True),
        ("BYTES", [b"a", b"c"], "ff", False),
        ("BOOLEAN", [False, False], True, False),
        ("TINYINT", [-1, 1], 2, False),
    ],
)
def test_bounds_of_every_type(tmp_path: Path, type_: str, values: list[Any], value: Any, matches: bool) -> None:
    fields = fields_of(("k", "INT NOT NULL"), ("a.b", type_))
    schema = schema_of(fields)
    target = arrow_type(fields[1].type)
    if pa.types.is_decimal(target):
        column = pa.array([Decimal(v) for v in values], target)
    elif isinstance(values[0], str):
        column = pa.array(values).cast(target)
    else:
        column = pa.array(values, target)
    (file,) = write(tmp_path, schema, numbered(pa.table({"k": pa.array([1, 2], pa.int32()), "a.b": column})))
    predicate = parse_predicate([("a.b", "==", value)], fields)
    rows = [len(p) for p in read_parts(tmp_path, file, schema, fields=fields, predicate=predicate)]
    assert rows == ([2] if matches else [])


def test_deleted_rows_are_left_out_and_positions_survive_skipping(stored: Stored) -> None:
    directory, file, schema = stored
    positions = {0, 999, *range(2000, 4000), *range(5000, 6000), 7001, 9999}
    deletion = Deleted(frozenset(positions))
    for batch_rows in (64, 1500, 100_000):
        rows = read(directory, file, schema, deletion=deletion, batch_rows=batch_rows)
        assert rows.values.column("k").to_pylist() == [k for k in range(ROWS) if k not in positions]
        assert rows.sequence is not None
        assert rows.sequence.tolist() == rows.values.column("k").to_pylist()
    predicate = parse_predicate([("k", ">=", 6500)], FIELDS)
    rows = read(directory, file, schema, deletion=deletion, predicate=predicate, batch_rows=333)
    assert rows.values.column("k").to_pylist() == [k for k in range(6000, ROWS) if k not in positions]


def test_a_file_whose_rows_are_all_deleted_is_empty(stored: Stored) -> None:
    directory, file, schema = stored
    assert list(read_parts(directory, file, schema, fields=FIELDS, deletion=Deleted(frozenset(range(ROWS))))) == []


def test_groups_that_are_deleted_altogether_are_not_decoded() -> None:
    groups = RowGroups.choose([3, 2, 0, 4], np.array([True, True, True, False]), Deleted(frozenset([3, 4])))
    assert (groups.numbers, groups.ranges, groups.row_count) == ((0,), ((0, 3),), 3)
    assert groups.keep.to_pylist() == [True, True, True]


def test_a_missing_file_names_the_likely_reason(stored: Stored) -> None:
    directory, file, schema = stored
    gone = file._replace(name="data-gone-0.parquet")
    with pytest.raises(NotFound, match=r"data-gone-0\.parquet.*expired"):
        read(directory, gone, schema)


def test_sizes_and_counts_must_agree_with_the_metadata(stored: Stored) -> None:
    directory, file, schema = stored
    with pytest.raises(CorruptFile, match="bytes long"):
        read(directory, file._replace(size=file.size + 1), schema)
    with pytest.raises(CorruptFile, match="10000 rows"):
        read(directory, file._replace(row_count=ROWS - 1), schema)


def test_every_flipped_byte_of_the_pages_is_an_error_or_harmless(stored: Stored, tmp_path: Path) -> None:
    directory, file, schema = stored
    content = (directory / file.name).read_bytes()
    rng = np.random.default_rng(5)
    noticed = 0
    for at in rng.integers(4, len(content) - 8, 150).tolist():
        broken = bytearray(content)
        broken[at] ^= 0x10
        (tmp_path / file.name).write_bytes(broken)
        try:
            rows = read(tmp_path, file, schema)
        except CorruptFile:
            noticed += 1
        else:
            assert rows.values.equals(_table())
    assert noticed > 100


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + b"\xff" * 40 + b"PAR1"])
@pytest.mark.parametrize("extension", ["parquet", "orc", "avro"])
def test_garbage_is_corrupt(stored: Stored, tmp_path: Path, extension: str, content: bytes) -> None:
    _, file, schema = stored
    (tmp_path / f"x.{extension}").write_bytes(content)
    with pytest.raises(CorruptFile, match=f"x.{extension}"):
        read(tmp_path, file._replace(name=f"x.{extension}", size=len(content)), schema)


def test_other_formats_are_refused_by_name(stored: Stored, tmp_path: Path) -> None:
    _, file, schema = stored
    (tmp_path / "data-1.lance").write_bytes(b"")
    with pytest.raises(UnsupportedFeature, match=r"data-1\.lance.*'lance'"):
        read(tmp_path, file._replace(name="data-1.lance", size=0), schema)


def test_kinds_beyond_the_four_are_corrupt(tmp_path: Path) -> None:
    schema = schema_of(FIELDS)
    (file,) = write(tmp_path, schema, numbered(_table(4), [0, 1, 2, 4]))
    with pytest.raises(CorruptFile, match="_VALUE_KIND"):
        read(tmp_path, file, schema)


MEMBERS = [{"id": 4, "name": "ma", "type": "INT"}, {"id": 5, "name": "mb", "type": "INT"}]
NAMED = (
    *fields_of(("k", "BIGINT NOT NULL"), ("va", "STRING"), ("vb", "INT")),
    DataField(3, "row", parse_type({"type": "ROW", "fields": MEMBERS})),
)


@pytest.mark.parametrize("columns", [("k", "va", "vb", "row"), ("va",), ("vb",), ("row",)], ids=str)
def test_a_column_whose_name_is_damaged_is_not_null(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """One bit of any name in the footer, or of its length: an error or the right rows, also where the name becomes that
    of another column."""
    schema = schema_of(NAMED)
    rows = [[1, 2, 3], ["x", "y", None], [4, None, 5], [{"ma": 1, "mb": 2}, None, {"ma": 3, "mb": None}]]
    arrays = [pa.array(values, arrow_type(f.type)) for values, f in zip(rows, NAMED, strict=True)]
    (file,) = write(tmp_path, schema, numbered(pa.table(arrays, schema=arrow_schema(NAMED))))
    path, fields = tmp_path / file.name, [f for f in NAMED if f.name in columns]
    data = path.read_bytes()
    right = read(tmp_path, file, schema, fields=fields).values
    errors = 0
    for name in (b"\x01k", b"\x02va", b"\x02vb", b"\x03row", b"\x02ma", b"\x02mb"):
        places = [p for p in range(len(data)) if data[p : p + len(name)] == name]
        for place in (p + i for p in places for i in range(len(name))):
            for bit in range(8):
                path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
                try:
                    assert read(tmp_path, file, schema, fields=fields).values.equals(right), (name, place, bit)
                except CorruptFile:
                    errors += 1
    assert errors > 100


def test_orc_stripes(tmp_path: Path) -> None:
    table = _table(50_000)
    n = table.num_rows
    system = {"_KEY_k": table.column("k"), "_SEQUENCE_NUMBER": np.arange(n), "_VALUE_KIND": np.zeros(n, np.int8)}
    physical = pa.table({**system, **{c: table.column(c) for c in table.column_names}})
    orc.write_table(physical, tmp_path / "x.orc", stripe_size=1, compression="zstd")
    assert orc.ORCFile(tmp_path / "x.orc").nstripes > 2
    schema = schema_of(FIELDS)
    (like,) = write(tmp_path, schema, numbered(_table(10)))
    file = like._replace(name="x.orc", size=(tmp_path / "x.orc").stat().st_size, row_count=n)
    assert read(tmp_path, file, schema, batch_rows=1000).values.equals(table)
    deletion = Deleted(frozenset(range(3, 30_000)))
    rows = read(tmp_path, file, schema, deletion=deletion, fields=[FIELDS[0]], batch_rows=999)
    assert rows.values.column("k").to_pylist() == [0, 1, 2, *range(30_000, n)]
    with pytest.raises(CorruptFile, match="rows"):
        read(tmp_path, file._replace(row_count=n + 1), schema)
