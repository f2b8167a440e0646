"""The same calls on the same rows make the same files, byte for byte, and the same operations on the storage.

Names, commit users and times are made by chance and the clock; both are put in their place here. The sync marker of an
Avro file is drawn by its library, and left out.
"""

from __future__ import annotations

import hashlib
import random
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.table import PaimonTable
from tests.faults.fault_storage import FaultStorage
from tests.sizes import sized

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("a", pa.string()), ("b", pa.float64())])


def run(root: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Writes, a compaction and a read; the bytes of every file, and all operations in order, relative to the table."""
    chance, names = random.Random(seed), random.Random(seed + 1)
    storage, now = FaultStorage(), iter(range(1_700_000_000, 1_800_000_000))
    with monkeypatch.context() as patched:
        patched.setattr("paimon_spark.table.locate", lambda path, options: (storage, path))
        patched.setattr(uuid, "uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4))
        patched.setattr(time, "time", lambda: next(now))
        patched.setattr(time, "time_ns", lambda: next(now) * 10**9)
        patched.setattr(random, "uniform", lambda low, high: low)
        options = {
            "bucket": str(chance.choice([1, 2])),
            "merge-engine": chance.choice(["deduplicate", "partial-update"]),
            "deletion-vectors.enabled": chance.choice(["true", "false"]),
            "write-only": "true",
        }
        table = PaimonTable.create(root, SCHEMA, ["p", "k"], ["p"], options)
        for _ in range(chance.randrange(2, 4)):
            table.append(rows(chance))
        table.compact(full=chance.random() < 0.5)
        table.append(rows(chance))
        table.read()
    files = {
        str(path.relative_to(root)): hashlib.sha256(without_marker(path)).hexdigest()
        for path in sorted(Path(root).rglob("*"))
        if path.is_file()
    }
    return files, [(operation, path.removeprefix(root)) for operation, path in storage.log]


def without_marker(path: Path) -> bytes:
    """A file's bytes, without the marker that ends the header and every block of an Avro file."""
    data = path.read_bytes()
    return data.replace(data[-16:], b"") if data.startswith(b"Obj\1") else data


def rows(chance: random.Random) -> pa.Table:
    count = chance.randrange(1, 40)
    columns = {
        "p": [chance.randrange(2) for _ in range(count)],
        "k": [chance.randrange(30) for _ in range(count)],
        "a": [chance.choice([None, "x", "yy" * chance.randrange(9)]) for _ in range(count)],
        "b": [chance.choice([None, 0.5, -1e300]) for _ in range(count)],
    }
    return pa.table(columns, schema=SCHEMA)


def test_the_same_seed_makes_the_same_bytes_and_the_same_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(sized(12, 100)):
        first, log = run(str(tmp_path / f"{seed}-1"), seed, monkeypatch)
        second, again = run(str(tmp_path / f"{seed}-2"), seed, monkeypatch)
        assert log == again, seed
        assert first == second, seed
        assert len(first) > 10
