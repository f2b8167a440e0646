"""Hints that are missing, late, ahead or rubbish: everybody finds the newest snapshot, and expiry the oldest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.storage.locate import locate
from paimon_spark.storage.storage import Storage
from paimon_spark.table import PaimonTable
from tests.faults.conftest import Use
from tests.storage.object_server import ObjectServer

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
HINTS = [None, b"1", b"4", b"5", b"6", b"7", b"8", b"99", b"", b"0", b"-1", b"6\n", b"x", b"9" * 60, b"\xff\x00"]


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """A storage, and the root of a table in it."""
    if request.param == "local":
        yield locate(str(tmp_path / "t"), {})
        return
    server = ObjectServer()
    yield locate("s3://bucket/t", server.options)
    server.stop()


def append(root: str, value: int) -> None:
    PaimonTable.open(root).append(pa.table({"k": [value], "v": [value]}))


def test_no_hint_is_trusted(place: tuple[Storage, str], use: Use) -> None:
    """Snapshots 4 to 7 are there, and each hint says something else."""
    storage, root = place
    use(storage)
    options = {"bucket": "1", "snapshot.num-retained.min": "4", "snapshot.num-retained.max": "4"}
    PaimonTable.create(root, SCHEMA, ["k"], options=options)
    for value in range(7):
        append(root, value)
    newest, written = 7, 7
    for name in ("LATEST", "EARLIEST"):
        for hint in HINTS:
            path = f"{root}/snapshot/{name}"
            storage.delete(path)
            if hint is not None:
                storage.replace(path, hint)
            table = PaimonTable.open(root)
            latest = table.snapshot()
            assert latest is not None
            assert latest.id == newest
            assert table.read().num_rows == written
            append(root, written)
            newest, written = newest + 1, written + 1
            table.expire_snapshots(4, 4, timedelta(0))
            assert table.metadata.snapshots.ids() == list(range(newest - 3, newest + 1))
            assert storage.read(f"{root}/snapshot/LATEST") == str(newest).encode()
            assert storage.read(f"{root}/snapshot/EARLIEST") == str(newest - 3).encode()
    assert PaimonTable.open(root).check(all_snapshots=True) == []
