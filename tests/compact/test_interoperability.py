"""What we compact, Java and pypaimon read: both leave level 0 out, so nothing may have stayed there. Then Java goes on
writing and compacting, and we after Java."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows
from tests.peers.referee import Pypaimon

GOLDEN = [
    "java-0.9/dv_dedup_deletes",
    "java-0.9/dv_multi_file",
    "java-0.9/dv_partition_buckets",
    "java-0.9/dv_pu",
    "java-2.0/dv_bitmap64",
    "java-2.0/dv_dedup_deletes",
    "java-2.0/dv_merge_on_read",
    "java-2.0/dv_multi_file",
    "java-2.0/dv_partition_buckets",
    "java-2.0/dv_pu",
]
# 64-bit vectors, which Java 0.9 does not know.
NEWER = ["java-2.0/dv_bitmap64"]
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("d", pa.decimal128(12, 2)),
        pa.field("s", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("at", pa.timestamp("us")),
    ]
)


def _batch(rng: random.Random, keys: int, count: int) -> pa.Table:
    """Each key once, as Java's writer folds equal keys too."""
    chosen = rng.sample(range(keys), min(count, keys))
    return pa.table(
        {
            "k": pa.array(chosen, pa.int64()),
            "d": pa.array([rng.choice([None, f"{rng.randrange(10**6)}.25"]) for _ in chosen]).cast(SCHEMA[1].type),
            "s": pa.array([rng.choice([None, "", "ä" * rng.randrange(9)]) for _ in chosen], pa.string()),
            "n": pa.array([rng.choice([None, rng.randrange(99)]) for _ in chosen], pa.int32()),
            "at": pa.array([rng.choice([None, rng.randrange(10**15)]) for _ in chosen], pa.timestamp("us")),
        },
        schema=SCHEMA,
    )


def _without_level_0(table: PaimonTable) -> pa.Table:
    return table.read(options={"deletion-vectors.merge-on-read": "false"})


@pytest.mark.parametrize("name", GOLDEN)
def test_java_reads_its_tables_after_we_went_on(java: JavaPaimon, golden: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "default.db" / "t"
    shutil.copytree(golden / name / "warehouse" / "default.db" / "t", path)
    table = PaimonTable.open(str(path), {"write-only": "false"})
    before = table.read()
    for number in range(3):
        table.append(before.slice(number * 3, 4 + number))
        table.compact(full=number == 2)
        assert 0 not in table.files()["level"].to_pylist()
        assert table.check() == []
        assert_same_rows(table.read(), before)
        assert_same_rows(_without_level_0(table), before)
        if name not in NEWER:
            assert_same_rows(java.read(path), before)


def test_64_bit_vectors_stay_64_bit_vectors(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden / "java-2.0/dv_bitmap64/warehouse/default.db/t", path)
    table = PaimonTable.open(str(path), {"deletion-vectors.bitmap64": "false"})
    table.append(table.read().slice(0, 1))
    table.compact()
    (entry,) = table.metadata.indexes.of_snapshot(table.snapshot()).entries
    content = (path / "index" / entry.name).read_bytes()
    assert content[5:9] == (1681511377).to_bytes(4, "little")


@pytest.mark.parametrize("seed", range(8))
def test_java_and_we_take_turns(java: JavaPaimon, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    merging = {"merge-engine": ["deduplicate", "partial-update"][seed % 2]}
    if seed % 4 == 3:
        merging["fields.n.sequence-group"] = "d,s"
    options = {
        **merging,
        "bucket": str(rng.randrange(1, 3)),
        "deletion-vectors.enabled": "true",
        "lookup.local-file-type": rng.choice(["hash", "sort"]),
        "target-file-size": rng.choice(["10 kb", "128 mb"]),
    }
    path = tmp_path / "default.db" / "t"
    table = PaimonTable.create(str(path), SCHEMA, ["k"], options=options)
    uncompacted = {**merging, "bucket": "1", "write-only": "true"}
    plain = PaimonTable.create(str(tmp_path / "plain"), SCHEMA, ["k"], options=uncompacted)
    for turn in range(6):
        data = _batch(rng, 4000, 3000 if turn == 0 else rng.choice([5, 60, 700]))
        if "fields.n.sequence-group" in merging:  # what a null there makes of a lone record depends on Java's way to it
            data = data.set_column(3, SCHEMA[3], data["n"].fill_null(0))
        plain.append(data)
        if rng.random() < 0.5:
            java.append(path, data, compact=rng.choice(["auto", "full"]))
        else:
            table.append(data)
            table.compact(full=rng.random() < 0.2)
        assert table.check() == []
        expected = plain.read()
        assert_same_rows(java.read(path), expected)
        assert_same_rows(_without_level_0(table), expected)
        assert_same_rows(table.read(), expected)


@pytest.mark.parametrize("seed", range(2))
def test_java_goes_on_with_tables_without_vectors(java: JavaPaimon, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    options = {"bucket": "1", "merge-engine": ["deduplicate", "partial-update"][seed], "write-only": "true"}
    path, other = tmp_path / "default.db" / "t", tmp_path / "other"
    table = PaimonTable.create(str(path), SCHEMA, ["k"], options=options)
    plain = PaimonTable.create(str(other), SCHEMA, ["k"], options=options)
    for turn in range(9):
        data = _batch(rng, 3000, rng.choice([50, 900]))
        plain.append(data)
        table.append(data)
        if turn % 3 == 2:
            java.compact(path, full=rng.random() < 0.5)
        else:
            table.compact(full=turn == 4)
        assert table.check() == []
        expected = plain.read()
        assert_same_rows(java.read(path), expected)
        assert_same_rows(table.read(), expected)


@pytest.mark.parametrize("seed", range(2))
def test_pypaimon_reads_what_we_compact(pypaimon: Pypaimon, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    options = {
        "bucket": "2",
        "merge-engine": ["deduplicate", "partial-update"][seed],
        "deletion-vectors.enabled": "true",
    }
    path = tmp_path / "default.db" / "t"
    table = PaimonTable.create(str(path), SCHEMA, ["k"], options=options)
    for turn in range(4):
        table.append(_batch(rng, 2000, 1500 if turn == 0 else 50))
        table.compact()
        assert_same_rows(pypaimon.read(path), table.read())
    (entry, *_) = table.metadata.indexes.of_snapshot(table.snapshot()).entries
    assert entry.ranges
