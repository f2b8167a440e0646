"""Tables made to harm whoever reads or writes them: bombs, lies and paths that lead elsewhere.

Nothing in a table's files runs code, leads out of the table, or takes memory without bound. What grows is read in a
process of its own, whose greatest memory is looked at.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import pickle
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptFile, InvalidInput, InvalidOption, NotFound, PaimonError, UnsupportedFeature
from paimon_spark.files.reader import read_data_file
from paimon_spark.lookup.compression import Lz4, Zstd
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.sort_layout import TRAILER
from paimon_spark.lookup.stored_blocks import StoredBlocks
from paimon_spark.metadata import avro
from paimon_spark.metadata.avro import DataContainer, write_container
from paimon_spark.metadata.manifest import SCHEMA, manifest_rows, read_manifest
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.rows.byte_strings import varint
from paimon_spark.storage.local import LocalStorage
from paimon_spark.table import PaimonTable
from tests.check.damage import Victim
from tests.files.tables import fields_of, numbered, schema_of, write
from tests.metadata.made_up import added, data_file
from tests.metadata.test_manifest import container, long

ROWS = pa.table(
    {"k": [1, 2], "s": ["a", "b"], "n": pa.array([1, 0], pa.int8()), "t": pa.array([1, 2], pa.timestamp("us"))}
)


# --------------------------------------------------------------------------- Avro

TEXTS = b'{"type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}]}'
PAIRS = b'{"type": "record", "name": "r", "fields": [{"name": "k", "type": "long"}, {"name": "v", "type": "long"}]}'
ITSELF = b'{"type": "record", "name": "r", "fields": [{"name": "k", "type": ["null", "r"]}]}'
NOTHINGS = b'{"type": "record", "name": "r", "fields": [{"name": "k", "type": {"type": "array", "items": "null"}}]}'
LIES = {
    "a block longer than the file": container(PAIRS) + long(1) + long(2**40),
    "a block of negative length": container(PAIRS) + long(1) + long(-1),
    "more records than bytes": container(PAIRS, b"null", (2**40, b"")),
    "a negative number of records": container(PAIRS, b"null", (-1, b"\0\0")),
    "a text longer than the block": container(TEXTS, b"null", (1, long(2**40))),
    "a schema that contains itself": container(ITSELF, b"null", (1, b"\2" * 100_000)),
    "2**40 items of no bytes": container(NOTHINGS, b"null", (1, long(2**40) + b"\0")),
    "another sync marker": container(PAIRS, b"null", (1, b"\0\0"))[:-16] + b"x" * 16,
    "bytes behind the last record": container(PAIRS, b"null", (1, b"\0\0\0")),
    "a header without end": b"Obj\1" + (long(1) + b"\0\0") * 800_000,
}


@pytest.mark.parametrize("lie", LIES)
def test_avro_that_lies_is_refused(lie: str) -> None:
    data = LIES[lie]
    with pytest.raises(CorruptFile):
        for _ in DataContainer(pa.BufferReader(data), len(data), "x").rows():
            pass
    with pytest.raises(CorruptFile):
        read_manifest(data, "x")


def zeros(megabytes: int) -> bytes:
    """So many megabytes of zeros, compressed."""
    zstd = pytest.importorskip("backports.zstd")
    compressor = zstd.ZstdCompressor(level=1)
    return b"".join(compressor.compress(bytes(2**20)) for _ in range(megabytes)) + compressor.flush()


def bombs() -> dict[str, bytes]:
    schema = SCHEMA.encode()
    return {
        "a block of a gigabyte": container(schema, b"zstandard", (1, zeros(1024))),
        "a block of many records": container(schema, b"zstandard", (2**20, zeros(60))),
    }


def test_avro_bombs_take_bounded_memory(tmp_path: Path) -> None:
    """Each of less than 200 KB; the same as files of manifests and as data files."""
    for name, data in bombs().items():
        assert len(data) < 200_000
        (tmp_path / name).write_bytes(data)
    program = """
import sys, pyarrow
from pathlib import Path
from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.avro import DataContainer
from paimon_spark.metadata.manifest import read_manifest
def highest():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) // 1024
loaded = highest()
for path in sorted(Path(sys.argv[1]).iterdir()):
    data = path.read_bytes()
    def as_data():
        for _ in DataContainer(pyarrow.BufferReader(data), len(data), path.name).rows():
            raise CorruptFile(path.name, "it could be read, row by row")
    for read in (lambda: read_manifest(data, path.name), as_data):
        try:
            read()
        except CorruptFile as problem:
            continue
        sys.exit(f"{path} was read")
print(highest() - loaded)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(f"Avro bombs of 1 GB: at most {done.stdout.strip()} MB of memory, besides that of the libraries")
    assert int(done.stdout) < 440


@pytest.mark.parametrize("bound", ["EXPANDED_LIMIT", "RECORD_LIMIT"])
def test_manifests_of_many_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    (data,) = write_container(SCHEMA, manifest_rows([added(data_file())] * 1000), "zstd")
    header = data.index(data[-16:]) + 16
    many = data + data[header:] * 10
    assert len(read_manifest(many, "x")) == 11_000
    monkeypatch.setattr(avro, bound, 10_000)
    with pytest.raises(CorruptFile, match=r"more than \d+ records or \d+ bytes"):
        read_manifest(many, "x")


# --------------------------------------------------------------------------- blocks of lookup files, pages of parquet


@pytest.mark.parametrize("packer", [Lz4(), Zstd()], ids=["lz4", "zstd"])
def test_blocks_of_lookup_files_unpack_to_what_is_allowed(packer: Any, tmp_path: Path) -> None:
    """A block of 64 MB with a right checksum: it neither grows beyond what its file says, nor beyond what it claims."""
    packed = packer.compress(bytes(2**26))
    for claimed, longest in ((2**26, 65_536), (2**40, None), (65_536, 65_536), (2**26 - 1, None)):
        framed = struct.pack("<ii", len(packed) - 8, claimed % 2**31) + packed[8:] if packer.name == "lz4" else packed
        payload = varint(claimed) + framed
        stored = payload + TRAILER.pack(packer.identity, zlib.crc32(bytes([packer.identity]), zlib.crc32(payload)))
        (tmp_path / "file").write_bytes(stored)
        room, size = np.empty(len(stored), np.uint8), np.array([len(payload)])
        with LocalFile(str(tmp_path / "file")) as file, pytest.raises(CorruptFile):
            StoredBlocks(file, longest).load(np.zeros(1, np.int64), size, room)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "snappy"])
def test_a_page_that_grows_beyond_its_header_is_refused(tmp_path: Path, codec: str) -> None:
    """The page's header says how much memory it gets; its bytes are those of a larger page."""
    fields = fields_of(("k", "BIGINT NOT NULL"), ("s", "STRING"))
    schema = schema_of(fields, file__compression=codec, parquet__enable__dictionary="false")
    rows = pa.table({"k": pa.array([1], pa.int64()), "s": ["x" * 2**20]})
    (file,) = write(tmp_path, schema, numbered(rows, [0]))
    path = tmp_path / file.name
    data = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(4)
    assert chunk.path_in_schema == "s"
    start = chunk.data_page_offset
    assert (data[start], data[start + 2]) == (0x15, 0x15), "a header begins with two int32, the type and this size"
    stop = next(at for at in range(start + 3, start + 13) if data[at] < 0x80) + 1
    data[start + 3 : stop] = long(2**20 - 100_000)
    path.write_bytes(data)
    with pytest.raises(PaimonError):
        list(read_data_file(LocalStorage(), str(path), file, data_schema=schema, fields=fields))


# --------------------------------------------------------------------------- what a data file says of its columns


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


def test_what_a_data_file_says_of_arrow_types_changes_nothing(tmp_path: Path) -> None:
    """Parquet files may carry an Arrow schema of their own, with extension types that run code when they are loaded."""
    PaimonTable.create(str(tmp_path / "t"), ROWS.schema, ["k"]).append(ROWS)
    extension = {"ARROW:extension:name": "arrow.py_extension_type"}
    claims = [
        pa.field(
            "s",
            pa.string(),
            metadata={**extension, "ARROW:extension:metadata": pickle.dumps(Payload(tmp_path / "pwned"))},
        ),
        pa.field("s", pa.dictionary(pa.int32(), pa.string())),
        pa.field("s", pa.large_string()),
        pa.field("n", pa.bool8()) if hasattr(pa, "bool8") else pa.field("n", pa.int16()),
        pa.field("k", pa.duration("us")),
        pa.field("t", pa.timestamp("us", "Asia/Tokyo")),
    ]
    victim = Victim(tmp_path / "t")
    (entry,) = victim.entries
    path = victim.path(entry)
    stored = pq.read_table(path)
    for claim in claims:
        claimed = pa.schema([claim if claim.name == field.name else field for field in stored.schema])
        with pq.ParquetWriter(path, stored.schema, store_schema=False) as writer:
            writer.write_table(stored)
            writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(claimed.serialize()).decode()})
        entry = victim.change_file(entry, size=path.stat().st_size)
        found = PaimonTable.open(victim.table.path).read()
        assert found.to_pylist() == ROWS.to_pylist()
        assert found.schema.types == ROWS.schema.types
    assert not (tmp_path / "pwned").exists()


# --------------------------------------------------------------------------- names and versions


def test_a_file_prefix_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for prefix in ("../../x-", "/tmp/x-", "a\\b", "a\0b"):
        with pytest.raises(InvalidOption, match="path separators"):
            PaimonTable.create(str(path), ROWS.schema, ["k"], options={"data-file.prefix": prefix})
    table = PaimonTable.create(str(path), ROWS.schema, ["k"])
    schema = json.loads((path / "schema/schema-0").read_bytes())
    schema["options"]["data-file.prefix"] = "../../x-"
    (path / "schema/schema-0").write_text(json.dumps(schema))
    with pytest.raises(InvalidOption, match="path separators"):
        PaimonTable.open(table.path).append(ROWS)
    assert {file.name for file in path.rglob("*") if file.is_file()} == {"schema-0"}
    assert {file.name for file in tmp_path.iterdir()} == {"t"}


@pytest.mark.parametrize("name", ["a/../b", "../x", "..", "", "a\\b", "a\0b"])
def test_a_tag_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    table = PaimonTable.create(str(tmp_path / "t"), ROWS.schema, ["k"])
    table.append(ROWS)
    for option in ("scan.tag-name", "scan.version"):
        with pytest.raises((InvalidInput, NotFound)):
            table.read(options={option: name})


@pytest.mark.parametrize("branch", ["a/../b", "b"])
def test_a_branch_is_refused_by_name(tmp_path: Path, branch: str) -> None:
    path = str(tmp_path / "t")
    PaimonTable.create(path, ROWS.schema, ["k"]).append(ROWS)
    with pytest.raises(UnsupportedFeature, match="branch"):
        PaimonTable.open(path, {"branch": branch}).read()


def test_versions_of_the_format_that_are_not_known_are_refused(tmp_path: Path) -> None:
    PaimonTable.create(str(tmp_path / "t"), ROWS.schema, ["k"]).append(ROWS)
    victim = Victim(tmp_path / "t")
    later = dataclasses.replace(victim.snapshot, version=4)
    with pytest.raises(UnsupportedFeature, match="version 4"):
        Snapshot.parse(later.serialize(), "x")
    schema = json.loads(victim.schema.serialize()) | {"version": 4}
    with pytest.raises(UnsupportedFeature, match="version 4"):
        TableSchema.parse(json.dumps(schema).encode(), "x")
