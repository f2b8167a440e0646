"""Index manifests: those that Java wrote, round trips, and how changes combine."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.index_manifest import (
    DELETION_VECTORS,
    HASH,
    SCHEMA,
    IndexEntry,
    IndexManifest,
    VectorRange,
    combine,
    read_index_manifest,
    write_index_manifest,
)
from paimon_spark.metadata.manifest import ADD
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.rows.binary_row import EMPTY_ROW
from paimon_spark.storage.local import LocalStorage
from tests.metadata.made_up import new_table, row
from tests.metadata.test_manifest import steps

VECTORS = IndexEntry(
    ADD, EMPTY_ROW, 0, DELETION_VECTORS, "index-1-0", 50, 2, (VectorRange("a", 1, 20, 3), VectorRange("b", 29, 20))
)
HASHES = IndexEntry(ADD, EMPTY_ROW, 0, HASH, "index-2-0", 8, 2)


def test_index_entries_of_every_table_that_java_wrote(golden: Path) -> None:
    seen = 0
    for metadata, step in steps(golden):
        snapshot = metadata.snapshots.get(step["snapshot"])
        assert snapshot.index_manifest == step["index_manifest"]
        entries = metadata.indexes.of_snapshot(snapshot).entries
        found = sorted((e.bucket, e.index_type, e.name, e.size, e.row_count, ranges(e)) for e in entries)
        assert found == sorted(
            (e["bucket"], e["type"], e["name"], e["size"], e["rows"], e.get("dv_ranges")) for e in step["index_entries"]
        )
        seen += len(entries)
    assert seen > 30


def ranges(entry: IndexEntry) -> list[list[Any]] | None:
    """As expectations spell them: without a cardinality where Java 0.9, which has none, wrote them."""
    if entry.ranges is None:
        return None
    return [[r.file, r.offset, r.length] + ([] if r.cardinality is None else [r.cardinality]) for r in entry.ranges]


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_entries_come_back(compression: str) -> None:
    outside = replace(VECTORS, bucket=1, external_path="/elsewhere/index-1-0", ranges=())
    state = IndexManifest((VECTORS, HASHES, outside))
    assert read_index_manifest(write_index_manifest(state, compression), "i") == state


def test_unknown_types_and_fields_are_carried_through() -> None:
    schema = json.loads(SCHEMA)
    glob = {
        "type": "record",
        "name": "record__GLOBAL_INDEX",
        "fields": [{"name": "_ROW_RANGE_START", "type": "long"}, {"name": "_INDEX_META", "type": ["null", "bytes"]}],
    }
    schema["fields"].append({"name": "_GLOBAL_INDEX", "type": ["null", glob], "default": None})
    common = {"_VERSION": 1, "_KIND": 0, "_PARTITION": EMPTY_ROW, "_BUCKET": 0, "_FILE_SIZE": 5, "_ROW_COUNT": 5}
    rows = [
        {
            **common,
            "_INDEX_TYPE": "BTREE",
            "_FILE_NAME": "g1",
            "_GLOBAL_INDEX": {"_ROW_RANGE_START": 7, "_INDEX_META": b"x"},
        },
        {
            **common,
            "_INDEX_TYPE": "BTREE",
            "_FILE_NAME": "g2",
            "_GLOBAL_INDEX": {"_ROW_RANGE_START": 8, "_INDEX_META": None},
        },
        {**common, "_INDEX_TYPE": "HASH", "_FILE_NAME": "h", "_GLOBAL_INDEX": None},
    ]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows)
    state = read_index_manifest(out.getvalue(), "i")
    after = combine(state, [VECTORS])
    again = write_index_manifest(after, "zstd")
    assert read_index_manifest(again, "i").entries[:3] == state.entries
    by_name = {r["_FILE_NAME"]: r for r in fastavro.reader(io.BytesIO(again))}
    assert [by_name[r["_FILE_NAME"]]["_GLOBAL_INDEX"] for r in rows] == [r["_GLOBAL_INDEX"] for r in rows]
    plain = write_index_manifest(combine(state, [e.deleted() for e in state.entries[:2]]), "zstd")
    assert b"_GLOBAL_INDEX" not in plain


def test_ranges_may_be_plain_records() -> None:
    schema = json.loads(SCHEMA)
    vectors = schema["fields"][8]["type"][1]
    vectors["items"] = vectors["items"][1]
    out = io.BytesIO()
    rows = fastavro.reader(io.BytesIO(write_index_manifest(IndexManifest((VECTORS,)), "none")))
    fastavro.writer(out, fastavro.parse_schema(schema), rows)
    assert read_index_manifest(out.getvalue(), "i").entries == (VECTORS,)


def test_a_buckets_index_is_replaced() -> None:
    other = replace(VECTORS, bucket=1, name="index-3-0")
    state = IndexManifest((VECTORS, HASHES, other))
    new = replace(VECTORS, name="index-9-0")
    assert set(names(combine(state, [new]))) == {"index-2-0", "index-3-0", "index-9-0"}
    assert names(combine(state, [VECTORS.deleted(), other.deleted()])) == ["index-2-0"]
    assert set(names(combine(state, [new, VECTORS.deleted()]))) == {"index-2-0", "index-3-0", "index-9-0"}
    elsewhere = replace(new, partition=row(1))
    assert len(combine(state, [elsewhere]).entries) == 4


def names(state: IndexManifest) -> list[str]:
    return [e.name for e in state.entries]


@pytest.mark.parametrize(
    "entry",
    [
        replace(HASHES, kind=1),
        replace(HASHES, size=-1),
        replace(HASHES, row_count=-1),
        replace(HASHES, name="../x"),
        replace(VECTORS, ranges=(VectorRange("a", -1, 5),)),
        replace(VECTORS, ranges=(VectorRange("a", 40, 11),)),
        replace(VECTORS, ranges=(VectorRange("a", 1, -5),)),
        replace(VECTORS, ranges=(VectorRange("a", 1, 5, -1),)),
        replace(VECTORS, ranges=(VectorRange("a/b", 1, 5),)),
    ],
)
def test_impossible_entries_are_refused(entry: IndexEntry) -> None:
    with pytest.raises(CorruptFile, match="index-manifest-7"):
        read_index_manifest(write_index_manifest(IndexManifest((entry,)), "zstd"), "index-manifest-7")


def test_where_index_files_are(tmp_path: Path) -> None:
    metadata, schema = new_table(
        tmp_path / "t", {"data-file.external-paths": f"file://{tmp_path}/far"}, partitioned=True
    )
    indexes = metadata.indexes
    assert indexes.index_path(HASHES, schema) == f"{tmp_path}/t/index/index-2-0"
    for path in (f"{tmp_path}/far/x", f"file:{tmp_path}/far/x", f"{tmp_path}/t/bucket-0/x"):
        plain = path.removeprefix("file:")
        assert indexes.index_path(replace(HASHES, external_path=path), schema) == plain
    for path in ("/etc/passwd", f"{tmp_path}/far/../x", f"{tmp_path}/farther/x", "far/x"):
        with pytest.raises(CorruptFile, match="outside"):
            indexes.index_path(replace(HASHES, external_path=path), schema)
    beside = schema.with_options(schema.options.merged({"index-file-in-data-file-dir": "true"}))
    inside = replace(HASHES, partition=row(3), bucket=1)
    assert indexes.index_path(inside, beside) == f"{tmp_path}/t/p=3/bucket-1/index-2-0"


def test_a_table_without_indexes(golden: Path) -> None:
    metadata = TableMetadata(LocalStorage(), str(golden / "java-2.0/pu_basic/warehouse/default.db/t"))
    latest = metadata.snapshots.latest()
    assert latest is not None
    assert metadata.indexes.deletion_vectors(latest) == {}
    assert metadata.indexes.of_snapshot(None) == IndexManifest()
