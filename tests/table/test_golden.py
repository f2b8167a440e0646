"""Tables that Java wrote read as Java reads them, snapshot by snapshot; engines that are missing are refused."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.table import PaimonTable
from paimon_spark.types import NESTED
from tests.java.rows import assert_same_rows, golden_snapshots, golden_table

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = ("java-0.9", "java-2.0")
REFUSED = {
    "agg_all": "aggregation",
    "agg_retract": "aggregation",
    "first_row": "first-row",
    "pu_seqgroup_agg": "aggregate function",
    "dv_pu_seqgroup": "aggregate function",
}


def _cases() -> Iterator[str]:
    for archive in ARCHIVES:
        with tarfile.open(DATA / "golden" / f"{archive}.tar.gz") as tar:
            names = [n.removesuffix("/script.json") for n in tar.getnames() if n.endswith("/script.json")]
        yield from sorted(names)


CASES = list(_cases())
READABLE = [case for case in CASES if case.split("/")[1] not in REFUSED]


def _table(case: Path) -> PaimonTable:
    return PaimonTable.open(str(case / "warehouse" / "default.db" / "t"))


def _read(table: PaimonTable, snapshot: int, **options: str) -> pa.Table:
    return table.read(options={"scan.snapshot-id": str(snapshot), **options})


def _as_java_sees_it(table: PaimonTable) -> dict[str, str]:
    """Java leaves out what deletion-vector tables hold at level 0, unless their option says otherwise."""
    option = "deletion-vectors.merge-on-read"
    return {} if option in table.options else {option: "false"}


@pytest.mark.parametrize("name", READABLE)
def test_every_snapshot_reads_as_java_read_it(golden: Path, name: str) -> None:
    table = _table(golden / name)
    snapshots = golden_snapshots(golden / name)
    assert snapshots
    for snapshot in snapshots:
        if "error" in snapshot:
            with pytest.raises(InvalidInput, match="ignore-delete"):
                _read(table, snapshot["snapshot"])
            continue
        rows = _read(table, snapshot["snapshot"], **_as_java_sees_it(table))
        assert rows.column_names == snapshot["columns"]
        assert_same_rows(rows, golden_table(snapshot, rows.schema))


@pytest.mark.parametrize("name", [n for n in READABLE if "/dv_" in n])
def test_level_0_of_deletion_vector_tables_is_visible_at_once(golden: Path, name: str) -> None:
    """What a commit appended is read at once as Java reads it after the compaction that follows."""
    table = _table(golden / name)
    snapshots = golden_snapshots(golden / name)
    pairs = [(a, b) for a, b in itertools.pairwise(snapshots) if b["commit_kind"] == "COMPACT"]
    assert pairs
    for appended, compacted in pairs:
        rows = _read(table, appended["snapshot"])
        assert_same_rows(rows, golden_table(compacted, rows.schema))


@pytest.mark.parametrize("name", [case for case in CASES if case.split("/")[1] in REFUSED])
def test_missing_engines_are_refused_by_name(golden: Path, name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=REFUSED[name.split("/")[1]]):
        _table(golden / name).read()


@pytest.mark.parametrize("name", [n for n in READABLE if "/all_types_" in n])
def test_a_filter_on_any_column_finds_the_rows_that_have_its_value(golden: Path, name: str) -> None:
    table = _table(golden / name)
    rows = table.read()
    for field in table.table_schema.fields:
        values = rows.column(field.name)
        if field.type.root in NESTED or values.null_count == len(values):
            continue
        value = values.drop_null()[0].as_py()
        found = table.read(filters=[(field.name, "==", value)])
        assert_same_rows(found, rows.filter(pc.equal(values, pa.scalar(value, values.type))))
