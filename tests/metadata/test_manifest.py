"""Manifests and manifest lists: those that Java wrote, those written here, and broken ones."""

from __future__ import annotations

import io
import json
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from paimon_spark.errors import CorruptFile, InvalidOption, UnsupportedFeature
from paimon_spark.metadata.avro import write_container
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import (
    ADD,
    DELETE,
    SCHEMA,
    ManifestEntry,
    manifest_rows,
    read_manifest,
)
from paimon_spark.metadata.manifest_list import ManifestFile, read_manifest_list, write_manifest_list
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.storage.local import LocalStorage
from tests.metadata.made_up import added, data_file, new_table, row

FULL = DataFile(
    name="data-1-0.parquet",
    size=10,
    row_count=5,
    min_key=row(1),
    max_key=row(5),
    key_stats=Statistics(row(1), row(5), (0,)),
    value_stats=Statistics(b"\0\0\0\2lower", b"\0\0\0\2upper", (0, None)),
    min_sequence=7,
    max_sequence=11,
    schema_id=3,
    level=4,
    extra_files=("data-1-0.parquet.index",),
    creation_millis=1_700_000_000_123,
    delete_row_count=2,
    embedded_index=b"index",
    source=1,
    value_stats_cols=("a", "b"),
    external_path="/elsewhere/data-1-0.parquet",
    first_row_id=9,
    write_cols=("a",),
)


def encoded(entries: list[ManifestEntry], compression: str = "zstd") -> bytes:
    (data,) = write_container(SCHEMA, manifest_rows(entries), compression)
    return data


# --------------------------------------------------------------------------- what Java wrote


def steps(golden: Path) -> Iterator[tuple[TableMetadata, dict[str, Any]]]:
    for expected in sorted(golden.glob("java-*/*/expected.jsonl")):
        metadata = TableMetadata(LocalStorage(), str(expected.parent / "warehouse/default.db/t"))
        for line in expected.read_text().splitlines():
            step = json.loads(line)
            if step.get("snapshot") is not None:
                yield metadata, step


def test_live_files_of_every_table_that_java_wrote(golden: Path) -> None:
    seen = 0
    for metadata, step in steps(golden):
        live = live_files(metadata, metadata.snapshots.get(step["snapshot"]))
        found = {(e.partition.hex(), e.bucket, e.total_buckets, e.file.name, e.file.level) for e in live}
        expected = {
            (e["partition_hex"], e["bucket"], e["total_buckets"], e["name"], e["level"])
            for e in step["manifest_entries"]
        }
        assert found == expected, (metadata.root, step["snapshot"])
        assert len(live) == len(expected)
        seen += 1
    assert seen > 200


def test_data_files_of_every_table_that_java_wrote(golden: Path) -> None:
    seen = 0
    for metadata, step in steps(golden):
        live = live_files(metadata, metadata.snapshots.get(step["snapshot"]))
        files = {(e.file.name, e.bucket): e.file for e in live}
        for split in step["splits"]:
            for expected in split["files"]:
                expected.pop("dv", None)
                assert described(files[expected["name"], split["bucket"]], expected) == expected
                seen += 1
    assert seen > 200


def described(file: DataFile, expected: dict[str, Any]) -> dict[str, Any]:
    """The file as the expectation spells it; decoded values, which other tests compare, are copied from there."""
    ours: dict[str, Any] = {
        "name": file.name,
        "size": file.size,
        "rows": file.row_count,
        "level": file.level,
        "schema": file.schema_id,
        "min_seq": file.min_sequence,
        "max_seq": file.max_sequence,
        "delete_rows": file.delete_row_count,
        "source": {0: "APPEND", 1: "COMPACT", None: None}[file.source],
        "min_key": expected["min_key"],
        "max_key": expected["max_key"],
        "min_key_hex": file.min_key.hex(),
        "max_key_hex": file.max_key.hex(),
        "value_stats_cols": None if file.value_stats_cols is None else list(file.value_stats_cols),
    }
    for name, stats in (("key_stats", file.key_stats), ("value_stats", file.value_stats)):
        ours[name] = {
            **expected[name],
            "min_hex": stats.lower.hex(),
            "max_hex": stats.upper.hex(),
            "null_counts": list(stats.null_counts),
        }
    if "value_stats_cols" not in expected:  # which Java 0.9 did not know
        assert ours.pop("value_stats_cols") is None
    return ours


def test_lists_count_what_their_manifests_hold(golden: Path) -> None:
    seen = 0
    for metadata, step in steps(golden):
        for manifest in metadata.manifests.of_snapshot(metadata.snapshots.get(step["snapshot"])):
            kinds = [entry.kind for entry in metadata.manifests.read(manifest)]
            assert (kinds.count(ADD), kinds.count(DELETE)) == (manifest.added, manifest.deleted)
            seen += 1
    assert seen > 200


def test_what_is_written_says_of_java_manifests_what_java_says(golden: Path, tmp_path: Path) -> None:
    """Rewriting Java's entries gives Java's description of them: counts, partition bounds, schema id."""
    compared = 0
    for metadata, step in steps(golden):
        schema = metadata.schemas.latest()
        assert schema is not None
        target = TableMetadata(LocalStorage(), str(tmp_path / str(compared)))
        for theirs in metadata.manifests.of_delta(metadata.snapshots.get(step["snapshot"])):
            entries = metadata.manifests.read(theirs)
            (ours,) = target.manifests.write(entries, schema)
            assert target.manifests.read(ours) == entries
            assert (ours.added, ours.deleted, ours.schema_id) == (theirs.added, theirs.deleted, theirs.schema_id)
            assert ours.partition_stats == theirs.partition_stats
            compared += 1
    assert compared > 200


# --------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("compression", ["zstd", "deflate", "none"])
def test_entries_come_back(compression: str) -> None:
    bare = DataFile(
        "d", 0, 0, b"", b"", FULL.key_stats, FULL.value_stats, 0, 0, 0, 0, delete_row_count=None, source=None
    )
    entries = [
        ManifestEntry(ADD, row(1), 3, 4, FULL),
        ManifestEntry(DELETE, row(2), -2, -2, bare),
    ]
    assert read_manifest(encoded(entries, compression), "m") == entries


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"manifest\.compression.*zip"):
        encoded([], "zip")


def test_lists_come_back() -> None:
    files = [
        ManifestFile("manifest-1-0", 10, 1, 2, Statistics(row(1), row(2), (0,)), 5, 0, 1, 0, 5, None, None),
        ManifestFile("manifest-1-1", 10, 1, 2, Statistics(row(1), row(2), (None,)), 5),
    ]
    assert read_manifest_list(write_manifest_list(files, "zstd"), "l") == files
    assert read_manifest_list(write_manifest_list([], "zstd"), "l") == []


def test_manifests_roll_at_the_target_size(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path, {"manifest.target-file-size": "20 kb"})
    entries = [added(data_file(i, i + 1), bucket=i % 2) for i in range(3500)]
    written = list(metadata.manifests.write(entries, schema))
    assert [m.added for m in written] == [1000, 1000, 1000, 500]
    assert [e for m in written for e in metadata.manifests.read(m)] == entries
    assert all(m.size == (tmp_path / "manifest" / m.name).stat().st_size for m in written)
    exactly = list(metadata.manifests.write(entries[:2000], schema))
    assert [m.added for m in exactly] == [1000, 1000]


def test_a_partition_with_nulls_is_described(tmp_path: Path) -> None:
    import pyarrow as pa

    from paimon_spark.rows.binary_row import serialize
    from paimon_spark.types import DataType

    metadata, schema = new_table(tmp_path, partitioned=True)
    null, low, high = serialize([pa.array([None, -5, 7], pa.int32())], [DataType("INT")])
    entries = [added(partition=p) for p in (high, null, low, null)]
    (manifest,) = metadata.manifests.write(entries, schema)
    assert manifest.partition_stats == Statistics(low, high, (2,))
    (nulls,) = metadata.manifests.write([added(partition=null)], schema)
    assert nulls.partition_stats == Statistics(null, null, (1,))


def test_keep_is_asked_before_a_file_is_decoded() -> None:
    good, bad = added(partition=row(1)), added(data_file(name="../evil"), partition=row(2))
    data = encoded([bad, good])
    assert read_manifest(data, "m", lambda partition, *_: partition == row(1)) == [good]
    with pytest.raises(CorruptFile, match="evil"):
        read_manifest(data, "m")


# --------------------------------------------------------------------------- other schemas


def rewritten(entries: list[ManifestEntry], schema: Any, rows: Any = None) -> bytes:
    out = io.BytesIO()
    rows = rows or list(manifest_rows(entries))
    fastavro.writer(out, fastavro.parse_schema(schema), rows, codec="deflate", disable_tuple_notation=True)
    return out.getvalue()


def test_fields_are_found_by_name() -> None:
    """A schema with 16 fields (Paimon 0.9), in another order, with a field nobody knows and other names of types."""
    schema = json.loads(SCHEMA)
    file = schema["fields"][5]["type"]
    file["fields"] = file["fields"][15::-1]
    unknown = {"name": "_NEW", "type": {"type": "map", "values": ["null", "double"]}, "default": {}}
    file["fields"].insert(3, unknown)
    file["name"], schema["namespace"] = "other.Name", "elsewhere"
    rows = list(manifest_rows([added(FULL)]))
    rows[0]["_FILE"]["_NEW"] = {"a": 1.5, "b": None}
    (entry,) = read_manifest(rewritten([], schema, rows), "m")
    gone = {"value_stats_cols": None, "external_path": None, "first_row_id": None, "write_cols": None}
    for field in DataFile._fields:
        assert getattr(entry.file, field) == gone.get(field, getattr(FULL, field)), field


def test_types_may_be_referred_to_by_name() -> None:
    """Python writers define the statistics record once and name it afterwards."""
    schema = json.loads(SCHEMA)
    fields = schema["fields"][5]["type"]["fields"]
    fields[6]["type"] = "record__FILE__KEY_STATS"
    (entry,) = read_manifest(rewritten([added(FULL)], schema), "m")
    assert entry.file == FULL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["fields"].pop(3), "_BUCKET is missing"),
        (lambda s: s["fields"][3].update(type="long"), "_BUCKET has type"),
        (lambda s: s["fields"][2].update(type="string"), "_PARTITION has type"),
        (lambda s: s.update(name="r") or s["fields"].append({"name": "x", "type": ["null", "r"]}), "contains itself"),
        (lambda s: s["fields"].append({"name": "x", "type": {"type": "array", "items": "null"}}), "no bytes"),
        (lambda s: s["fields"].append({"name": "x", "type": "what"}), "not defined"),
    ],
)
def test_schemas_that_cannot_be_read_by(change: Any, message: str) -> None:
    schema = json.loads(SCHEMA)
    change(schema)
    with pytest.raises(CorruptFile, match=message):
        read_manifest(container(json.dumps(schema).encode()), "m")


# --------------------------------------------------------------------------- broken files


def long(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def container(schema: bytes = SCHEMA.encode(), codec: bytes = b"null", *blocks: tuple[int, bytes]) -> bytes:
    """A container file with these blocks of (records, bytes)."""
    header = {b"avro.schema": schema, b"avro.codec": codec}
    out = b"Obj\1" + long(2) + b"".join(long(len(k)) + k + long(len(v)) + v for k, v in header.items()) + long(0)
    out += b"s" * 16
    return out + b"".join(long(count) + long(len(data)) + data + b"s" * 16 for count, data in blocks)


def test_every_cut_and_every_flipped_bit_is_noticed_or_harmless() -> None:
    """Avro has no checksum, so a flipped bit may change a value; it may never raise anything but CorruptFile."""
    entries = [added(FULL), added(data_file())]
    data = encoded(entries, "none")
    for size in range(len(data)):
        try:
            assert read_manifest(data[:size], "m") == []
        except CorruptFile:
            continue
        assert size == len(data) - len(data.split(data[-16:])[1]) - 16  # exactly after the header
    for bit in range(0, len(data) * 8, 3):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            read_manifest(bytes(broken), "m")
        except (CorruptFile, UnsupportedFeature):
            continue


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "4 bytes"),
        (b"PAR1" * 10, "does not begin"),
        (container(b"[" * 100_000), "Avro schema"),
        (container(b'{"type": ' * 50_000), "Avro schema"),
        (container(b" " * 2**20 + b" "), "Avro schema"),
        (container(b'"int"'), "root is not a record"),
        (container(SCHEMA.encode(), b"null", (2**40, b"")), "claims"),
        (container(SCHEMA.encode(), b"null", (-1, b"")), "claims"),
        (container(SCHEMA.encode(), b"null", (1, b"\4\0" + long(2**40))), "does not decode"),
        (container(SCHEMA.encode(), b"null", (1, b"\4\0" + long(-5))), "does not decode"),
        (container(SCHEMA.encode(), b"zstandard", (1, b"\xff" * 50)), "does not decompress"),
        (container()[:-1], "16 bytes"),
        (container() + b"\xff" * 11, "too long"),
    ],
)
def test_broken_containers(data: bytes, message: str) -> None:
    started = time.process_time()
    with pytest.raises(CorruptFile, match=message):
        read_manifest(data, "m")
    assert time.process_time() - started < 10


@pytest.mark.parametrize("codec", [b"deflate", b"zstandard"])
def test_a_block_that_grows_too_much_is_refused(codec: bytes) -> None:
    if codec == b"deflate":
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        bomb = b"".join(compressor.compress(bytes(2**20)) for _ in range(65)) + compressor.flush()
    else:
        zstd = pytest.importorskip("backports.zstd")
        bomb = zstd.compress(bytes(65 * 2**20))
    assert len(bomb) < 2**18
    with pytest.raises(CorruptFile, match="more than"):
        read_manifest(container(SCHEMA.encode(), codec, (1, bomb)), "m")


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedFeature, match="snappy"):
        read_manifest(container(SCHEMA.encode(), b"snappy"), "m")


@pytest.mark.parametrize(
    "file",
    [
        data_file(size=-1),
        data_file(row_count=-1),
        data_file(level=-1),
        data_file(delete_row_count=11),
        data_file(delete_row_count=-1),
        data_file(name=""),
        data_file(name=".."),
        data_file(name="a/b"),
        data_file(name="/etc/passwd"),
        data_file(name="a\\b"),
        data_file(name="a\0b"),
        data_file(extra_files=("../x",)),
    ],
)
def test_impossible_files_are_refused(file: DataFile) -> None:
    with pytest.raises(CorruptFile):
        read_manifest(encoded([added(file)]), "manifest-7")


@pytest.mark.parametrize("change", [{"_VERSION": 1}, {"_KIND": 2}, {"_KIND": -1}, {"_BUCKET": -3}])
def test_impossible_entries_are_refused(change: dict[str, int]) -> None:
    rows = list(manifest_rows([added()]))
    rows[0].update(change)
    (data,) = write_container(SCHEMA, rows, "zstd")
    with pytest.raises(CorruptFile, match=f"manifest-7.*{next(iter(change))} {next(iter(change.values()))}"):
        read_manifest(data, "manifest-7")


@pytest.mark.parametrize("change", [{"name": "../m"}, {"size": -1}, {"added": -1}, {"deleted": -1}])
def test_impossible_lists_are_refused(change: dict[str, Any]) -> None:
    values = {"name": "m", "size": 1, "added": 1, "deleted": 0, **change}
    file = ManifestFile(**values, partition_stats=Statistics(row(1), row(1), (0,)), schema_id=0)
    with pytest.raises(CorruptFile, match="list-7"):
        read_manifest_list(write_manifest_list([file], "zstd"), "list-7")


def test_a_manifest_of_another_size_than_recorded_is_refused(tmp_path: Path) -> None:
    metadata, schema = new_table(tmp_path)
    (manifest,) = metadata.manifests.write([added()], schema)
    path = tmp_path / "manifest" / manifest.name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptFile, match=f"{manifest.name}.*recorded {manifest.size}"):
        metadata.manifests.read(manifest)


def test_float_and_time_partitions_are_bounded() -> None:
    import pyarrow as pa

    from paimon_spark.metadata.key_order import column_bounds, comparable_rows
    from paimon_spark.rows.binary_row import serialize
    from paimon_spark.types import DataType

    doubles = [
        float("-inf"),
        -1.5,
        -0.0,
        0.0,
        1.5,
        float("inf"),
        float("nan"),
        struct.unpack("<d", b"\1" * 6 + b"\xff\xff")[0],
    ]
    rows = serialize([pa.array(doubles)], [DataType("DOUBLE")])
    keys = comparable_rows(rows, [DataType("DOUBLE")])
    assert keys[:7] == sorted(keys[:7])
    assert len(set(keys[:7])) == 7
    assert keys[6] == keys[7]
    assert column_bounds(rows[:7], [DataType("DOUBLE")])[:2] == (rows[0], rows[6])

    nanos = pa.array([-1, 0, 1], pa.timestamp("ns"))
    types = [DataType("TIMESTAMP", precision=9)]
    rows = serialize([nanos], types)
    assert column_bounds([rows[1], rows[2], rows[0]], types)[:2] == (rows[0], rows[2])
