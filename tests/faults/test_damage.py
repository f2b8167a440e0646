"""Every file of a table is damaged, and everything that parses bytes is fed with rubbish.

A reader gives the right rows or an error of this package that names the file: no other exception, no endless loop. It
never gives other rows where the format has checksums (data pages, deletion vectors). Manifests, schemas and snapshots
have none; there the sizes, counts and names that they state about each other must find most of the damage.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFile, PaimonError
from paimon_spark.files.reader import read_data_file
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import (
    MAGIC_32,
    MAGIC_64,
    DeletionVector,
    encode_vectors,
    read_deletion_vector,
)
from paimon_spark.metadata.index_manifest import read_index_manifest
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.manifest import read_manifest
from paimon_spark.metadata.manifest_list import read_manifest_list
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.predicate import parse_predicate
from paimon_spark.rows.binary_row import decode
from paimon_spark.storage.local import LocalStorage
from paimon_spark.table import PaimonTable
from paimon_spark.types import DataType
from tests.faults.conftest import Use
from tests.sizes import SOAK, seeded, sized

# Of CPU time: nothing runs without end.
LONGEST_SECONDS = 10.0
SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
KINDS = ("snapshot", "schema", "manifest-list", "index-manifest", "manifest", "index", "data")
CHECKSUMMED = ("index", "data")


def new_table(path: Path) -> PaimonTable:
    """A table with a file below, its deletion vector, and a file at level 0 above it."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "merge-engine": "partial-update"}
    table = PaimonTable.create(str(path), SCHEMA, ["id"], options=options)
    for first, rows in ((0, 2000), (150, 50), (190, 30)):
        ids = list(range(first, first + rows))
        table.append(pa.table({"id": ids, "a": [i * i for i in ids], "b": [f"text {i * 7919 % 1000}" for i in ids]}))
        if first < 190:
            table.compact()
    return table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PaimonTable:
    return new_table(tmp_path_factory.mktemp("damage") / "t")


def used_files(table: PaimonTable) -> dict[str, list[Path]]:
    """The files that a read of the newest snapshot opens, by kind."""
    root, snapshot = Path(table.path), table.snapshot()
    assert snapshot is not None
    metadata = table.metadata
    lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    return {
        "snapshot": [root / f"snapshot/snapshot-{snapshot.id}"],
        "schema": [root / "schema/schema-0"],
        "manifest-list": [root / "manifest" / name for name in lists],
        "index-manifest": [root / "manifest" / str(snapshot.index_manifest)],
        "manifest": [root / "manifest" / m.name for m in metadata.manifests.of_snapshot(snapshot)],
        "index": [root / "index" / entry.name for entry in metadata.indexes.of_snapshot(snapshot).entries],
        "data": [root / "bucket-0" / entry.file.name for entry in live_files(metadata, snapshot)],
    }


class Damaged(LocalStorage):
    """Local files, one of which has other bytes."""

    def __init__(self, path: Path, data: bytes) -> None:
        object.__setattr__(self, "damaged", (str(path), data))

    def read(self, path: str, limit: int | None = None) -> bytes:
        damaged: tuple[str, bytes] = self.damaged  # type: ignore[attr-defined]
        return damaged[1] if path == damaged[0] else super().read(path, limit)

    def open(self, path: str) -> pa.NativeFile:
        damaged: tuple[str, bytes] = self.damaged  # type: ignore[attr-defined]
        return pa.BufferReader(damaged[1]) if path == damaged[0] else super().open(path)


def outcome(table: PaimonTable, right: pa.Table, path: Path, data: bytes, use: Use) -> str:
    """What reading a table comes to when one of its files has these bytes."""
    use(Damaged(path, data))
    start = time.process_time()
    try:
        rows = PaimonTable.open(table.path).read().sort_by("id")
    except PaimonError:
        return "error"
    finally:
        assert time.process_time() - start < LONGEST_SECONDS
    return "right" if rows.equals(right) else "wrong"


@pytest.mark.parametrize("kind", KINDS)
def test_one_flipped_bit(table: PaimonTable, use: Use, kind: str) -> None:
    right = table.read().sort_by("id")
    paths = used_files(table)[kind]
    assert paths
    bits = range(8) if SOAK and kind == "data" else (0, 7)
    chance, counts = seeded("flips"), Counter[str]()
    for path in paths:
        data = path.read_bytes()
        places = (
            range(len(data)) if SOAK else sorted(chance.sample(range(len(data)), min(120 // len(paths), len(data))))
        )
        for place in places:
            for bit in bits:
                broken = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
                counts[outcome(table, right, path, broken, use)] += 1
    print(f"{kind}: {dict(counts)}")
    if kind in CHECKSUMMED:
        assert not counts["wrong"]
    assert counts["error"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_off(table: PaimonTable, use: Use, kind: str) -> None:
    right = table.read().sort_by("id")
    for path in used_files(table)[kind]:
        data = path.read_bytes()
        lengths = (
            range(len(data))
            if SOAK
            else sorted({0, 1, 4, *range(7, len(data), max(len(data) // 40, 1)), *ends(kind, data)})
        )
        for length in lengths:
            assert outcome(table, right, path, data[:length], use) == "error", length


def ends(kind: str, data: bytes) -> list[int]:
    """Where a cut is least noticed: before the last byte, and in Avro files behind each sync marker, which the last 16
    bytes are; the first of them ends the header, and there an Avro file without records ends."""
    if "manifest" not in kind:
        return [len(data) - 1]
    return [*(at + 16 for at in range(len(data) - 16) if data[at : at + 16] == data[-16:]), len(data) - 1]


def test_bytes_too_many_are_noticed(table: PaimonTable, use: Use) -> None:
    right = table.read().sort_by("id")
    for kind, paths in used_files(table).items():
        for path in paths:
            found = outcome(table, right, path, path.read_bytes() + b"\0garbage", use)
            assert found in (("error", "right") if kind == "index" else ("error",)), kind


# --------------------------------------------------------------------------- rubbish for every parser

FUZZ = settings(
    max_examples=sized(150, 20_000), deadline=None, derandomize=not SOAK, suppress_health_check=list(HealthCheck)
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from("rrrxid"), st.binary(min_size=1, max_size=9)), max_size=6)
NUMBERS = (
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x01",
    b"\xfe\xff\xff\xff\xff\xff\xff\x7f",
)


def edited(data: bytes, edits: list[tuple[float, str, bytes]]) -> bytes:
    """``data`` with pieces replaced, turned into strange numbers, inserted or deleted."""
    for where, what, piece in edits:
        at = int(where * len(data))
        piece = NUMBERS[piece[0] % len(NUMBERS)] if what == "x" else piece
        skipped = 0 if what == "i" else len(piece)
        data = data[:at] + (b"" if what == "d" else piece) + data[at + skipped :]
    return data


EXAMPLES = 2000
# The ORC library counts through as many elements of lists as damaged lengths claim.
ORC_SECONDS = 60
ORC_EXAMPLES, ORC_SEED = 200, 1


def more_edits(name: str) -> Iterator[list[tuple[float, str, bytes]]]:
    """Lists of edits, drawn without the care that makes Hypothesis slow, until there were EXAMPLES examples."""
    return drawn_edits(seeded(f"edits of {name}"), 0 if SOAK else EXAMPLES)


def drawn_edits(chance: random.Random, count: int) -> Iterator[list[tuple[float, str, bytes]]]:
    """So many lists of edits."""
    for _ in range(count):
        yield [
            (chance.random(), chance.choice("rrrxid"), chance.randbytes(chance.randrange(1, 10)))
            for _ in range(chance.randrange(1, 7))
        ]


def survives(parse: Callable[[bytes], object], data: bytes, seconds: float = LONGEST_SECONDS) -> None:
    """Parsing ends in time, with a result or an error of this package."""
    start = time.process_time()
    with contextlib.suppress(PaimonError):
        parse(data)
    assert time.process_time() - start < seconds


PARSERS: dict[str, Callable[[bytes], object]] = {
    "snapshot": lambda data: Snapshot.parse(data, "x"),
    "schema": lambda data: TableSchema.parse(data, "x"),
    "manifest-list": lambda data: read_manifest_list(data, "x"),
    "manifest": lambda data: read_manifest(data, "x"),
    "index-manifest": lambda data: read_index_manifest(data, "x"),
}


@pytest.mark.parametrize("kind", PARSERS)
def test_metadata_parsers_survive_anything(table: PaimonTable, kind: str) -> None:
    valid = used_files(table)[kind][0].read_bytes()

    @FUZZ
    @given(st.one_of(st.binary(max_size=300), EDITS.map(lambda edits: edited(valid, edits))))
    def fuzz(data: bytes) -> None:
        survives(PARSERS[kind], data)

    fuzz()
    for edits in more_edits(kind):
        survives(PARSERS[kind], edited(valid, edits))


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_deletion_vectors_with_a_right_checksum_survive_anything(tmp_path: Path, wide: bool) -> None:
    vector = DeletionVector.of([1, 5, *range(100, 900), 70_000])
    data, ((_, offset, _, _),) = encode_one(vector, wide)
    magic = MAGIC_64 if wide else MAGIC_32
    bitmap = data[offset + 8 : -4]
    path = str(tmp_path / "index")

    @FUZZ
    @given(st.one_of(st.binary(max_size=200), EDITS.map(lambda edits: edited(bitmap, edits))))
    def fuzz(body: bytes) -> None:
        read(body)

    def read(body: bytes) -> None:
        body = magic + body
        Path(path).write_bytes(b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body)))
        ref = DeletionVectorRef("data", path, 1, len(body) + (8 if wide else 0))
        survives(lambda _: read_deletion_vector(LocalStorage(), ref, 100_000).mask(0, 1000), b"")

    fuzz()
    for edits in more_edits("deletion vectors"):
        read(edited(bitmap, edits))


def encode_one(vector: DeletionVector, wide: bool) -> tuple[bytes, list[tuple[str, int, int, int | None]]]:
    data, ranges = encode_vectors({"data": vector}, wide)
    return data, [(r.file, r.offset, r.length, r.cardinality) for r in ranges]


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_data_files_survive_anything(table: PaimonTable, golden: Path, tmp_path: Path, format_: str) -> None:
    """Of ORC always the same damage, whatever version of Hypothesis there is: among some thousand random ones there is
    one at which Arrow's library ends the process."""
    path, schema, file = some_file(table, golden, format_)
    valid, target = path.read_bytes(), tmp_path / "damaged"

    @settings(FUZZ, max_examples=sized(100, 5000))
    @given(EDITS.map(lambda edits: edited(valid, edits)))
    def fuzz(data: bytes) -> None:
        read(data)

    def read(data: bytes) -> None:
        target.write_bytes(data)
        described = file._replace(size=len(data))
        survives(
            lambda _: list(
                read_data_file(LocalStorage(), str(target), described, data_schema=schema, fields=schema.fields)
            ),
            data,
            ORC_SECONDS if format_ == "orc" else LONGEST_SECONDS,
        )

    if format_ != "orc":
        fuzz()
    for edits in drawn_edits(random.Random(ORC_SEED), ORC_EXAMPLES) if format_ == "orc" else more_edits(format_):
        read(edited(valid, edits))


def some_file(table: PaimonTable, golden: Path, format_: str) -> tuple[Path, TableSchema, DataFile]:
    """A data file of that format, its schema and its metadata."""
    tables = (
        [Path(table.path)] if format_ == "parquet" else sorted(p.parent.parent for p in golden.rglob("schema/schema-0"))
    )
    for root in tables:
        if "branch" in root.parts or not list(root.rglob(f"bucket-*/*.{format_}")):
            continue
        opened = PaimonTable.open(str(root))
        snapshot = opened.snapshot()
        for entry in live_files(opened.metadata, snapshot) if snapshot else []:
            if entry.file.name.endswith(format_):
                directory = opened.metadata.bucket_directory(opened.table_schema, entry.partition, entry.bucket)
                return Path(directory, entry.file.name), opened.metadata.schemas.get(entry.file.schema_id), entry.file
    raise AssertionError(f"no file of format {format_}")


TYPES = [DataType(root) for root in ("INT", "BIGINT", "DOUBLE", "BOOLEAN")] + [DataType("VARCHAR", length=2**31 - 1)]


@FUZZ
@given(st.lists(st.one_of(st.binary(max_size=80), st.binary(max_size=60).map(lambda b: b"\0\0\0\5" + b)), max_size=4))
def test_rows_survive_anything(rows: list[bytes]) -> None:
    survives(lambda _: decode(rows, TYPES), b"")


@FUZZ
@given(st.text(max_size=80))
def test_filters_survive_anything(text: str) -> None:
    fields = TableSchema.parse(SCHEMA_FILE, "x").fields
    survives(lambda _: parse_predicate(text, fields), b"")


SCHEMA_FILE = b"""{"version": 3, "id": 0, "fields": [{"id": 0, "name": "a", "type": "BIGINT"}], "highestFieldId": 0,
"partitionKeys": [], "primaryKeys": ["a"], "options": {"bucket": "1"}, "timeMillis": 0}"""


# --------------------------------------------------------------------------- bombs and lies


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"id": ' + b"9" * 10_000 + b"}",
        b'{"id": NaN, "schemaId": Infinity}',
        b'{"id": 1e400}',
        b"{" + b",".join(b'"k%d": 0' % i for i in range(1_000_000)) + b"}",
        b'{"version": 3, "id": 1, "id": 2}',
        b"\xff\xfe{}",
        b"",
    ],
    ids=["depth", "digits", "NaN", "infinity", "keys", "twice", "not UTF-8", "empty"],
)
@pytest.mark.parametrize("parse", [Snapshot.parse, TableSchema.parse], ids=["snapshot", "schema"])
def test_json_bombs(parse: Callable[[bytes, str], object], data: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse(data, "x")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "s3://other/x", "..", "a\0b"]
)
@pytest.mark.parametrize("key", ["baseManifestList", "deltaManifestList", "indexManifest"])
def test_a_snapshot_that_names_files_elsewhere(tmp_path: Path, table: PaimonTable, key: str, name: str) -> None:
    copy = tmp_path / "t"
    shutil.copytree(table.path, copy)
    snapshot = table.snapshot()
    assert snapshot is not None
    fields = {"baseManifestList": "base_manifest_list", "deltaManifestList": "delta_manifest_list"}
    lying = replace(snapshot, **{fields.get(key, "index_manifest"): name})
    (copy / f"snapshot/snapshot-{snapshot.id}").write_bytes(lying.serialize())
    with pytest.raises(CorruptFile, match="not a plain file name"):
        PaimonTable.open(str(copy)).read()


HOSTILE = st.one_of(
    st.sampled_from(["..", ".", "a/b", "../../etc", "%2e%2e", "a=b", "\\", "a:b", " ", "", "\t", "x" * 60, "CON", "~"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)


@settings(FUZZ, max_examples=sized(60, 3000))
@given(values=st.lists(HOSTILE, min_size=1, max_size=8, unique=True))
def test_partition_values_stay_in_the_table(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    root = tmp_path_factory.mktemp("partitions")
    schema = pa.schema([("p", pa.string()), ("id", pa.int64())])
    table = PaimonTable.create(str(root / "t"), schema, ["p", "id"], ["p"])
    table.append(pa.table({"p": values, "id": list(range(len(values)))}))
    assert [path.name for path in root.iterdir()] == ["t"]
    below = {path.name for path in (root / "t").iterdir()} - {"snapshot", "schema", "manifest"}
    assert all(name.startswith("p=") for name in below)
    found = {row["id"]: row["p"] for row in table.read().to_pylist()}
    assert found == dict(enumerate(values))
    shutil.rmtree(root)
