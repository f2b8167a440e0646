"""Tables that Java wrote, and tables that we write, have no breaches at any of their snapshots."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import NotFound, UnsupportedFeature
from paimon_spark.table import PaimonTable
from tests.archives import unpack
from tests.check.damage import Victim

DATA = Path(__file__).parent.parent / "data"


def _cases() -> Iterator[str]:
    for archive in ("java-0.9", "java-2.0"):
        with tarfile.open(DATA / "golden" / f"{archive}.tar.gz") as tar:
            names = [n.removesuffix("/script.json") for n in tar.getnames() if n.endswith("/script.json")]
        yield from sorted(names)


@pytest.mark.parametrize("case", list(_cases()))
def test_tables_of_java_are_sound(golden: Path, case: str) -> None:
    """All of them: also those whose merge engine cannot be read here."""
    path = str(golden / case / "warehouse" / "default.db" / "t")
    assert paimon_spark.check(path, all_snapshots=True) == []


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fixtures")
    for archive in ("java09-warehouse", "python-warehouse"):
        unpack(DATA / "fixtures" / f"{archive}.tar.gz", root)
    return root


def test_the_other_fixtures_are_sound_where_they_claim_to_be(fixtures: Path) -> None:
    tables = sorted(p.parent.parent for p in fixtures.rglob("schema/schema-0") if "branch" not in p.parts)
    assert len(tables) > 30
    for table in tables:
        breaches = paimon_spark.check(str(table), all_snapshots=True)
        if table.name.split("_")[0] == "two":  # made with half the row count in the snapshot
            assert [b.detail.split(" ")[0] for b in breaches] == ["totalRecordCount", "deltaRecordCount"]
        else:
            assert breaches == [], table


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("buckets", ["1", "3"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_tables_of_ours_are_sound(tmp_path: Path, engine: str, partitioned: bool, buckets: str, vectors: str) -> None:
    victim = Victim.new(
        tmp_path / "t",
        partitioned=partitioned,
        bucket=buckets,
        merge_engine=engine,
        deletion_vectors__enabled=vectors,
        target_file_size="4 kb",
        write_buffer_size="64 kb",
        manifest__merge_min_count="2",
        write_only="true",
    )
    assert victim.breaches() == []
    victim.append(range(4000))
    victim.append(range(1000, 3000), partition=1)
    victim.append([7, 7, -(2**63), 2**63 - 1])
    victim.table.overwrite(victim.table.read(filters=[("k", "<", 2500)]))
    victim.append(range(2400, 2600))
    assert len(victim.entries) > 4
    assert victim.breaches(all_snapshots=True) == []
    assert victim.breaches(all_snapshots=True, deep=False) == []


def test_every_type_of_key_and_partition(tmp_path: Path) -> None:
    columns = {
        "p": pa.array([None, "a", "a", "ä/b"], pa.string()),
        "f": pa.array([float("nan"), -0.0, 0.0, -1.5], pa.float64()),
        "d": pa.array(["1.50", "-3.25", "0.00", "99.99"], pa.string()).cast(pa.decimal128(30, 2)),
        "s": pa.array(["", "x\0", "x", "ü" * 50]),
        "v": pa.array([None, b"", b"\xff" * 40, b"a"], pa.binary()),
    }
    data = pa.table(columns)
    schema = pa.schema([data.schema.field(n).with_nullable(n == "v" or n == "p") for n in columns])
    table = PaimonTable.create(
        str(tmp_path / "t"), schema, ["p", "f", "d", "s"], ["p"], {"bucket": "4", "bucket-key": "d"}
    )
    with pytest.raises(paimon_spark.InvalidInput):
        table.append(data)  # a key has no nulls
    table.append(data.slice(1))
    table.append(data.slice(2))
    assert table.check(all_snapshots=True) == []


def test_a_table_without_snapshots_and_no_table(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t")
    assert paimon_spark.check(victim.table.path) == []
    assert paimon_spark.check(victim.table.path, all_snapshots=True) == []
    with pytest.raises(NotFound, match="no Paimon table"):
        paimon_spark.check(str(tmp_path / "other"))


def test_what_cannot_be_checked_is_refused(tmp_path: Path) -> None:
    victim = Victim.new(tmp_path / "t")
    victim.append([1])
    schema = (tmp_path / "t" / "schema" / "schema-0").read_text()
    changed = schema.replace('"options" : {', '"options" : {"row-tracking.enabled": "true",').replace(
        '"options": {', '"options": {"row-tracking.enabled": "true",'
    )
    assert changed != schema
    (tmp_path / "t" / "schema" / "schema-0").write_text(changed)
    with pytest.raises(UnsupportedFeature, match="row-tracking"):
        paimon_spark.check(victim.table.path)
