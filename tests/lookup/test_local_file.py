"""A new file has what was appended and no more, whatever disk space was asked for ahead."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.lookup import local_file
from paimon_spark.lookup.local_file import NewFile


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_file, "_RESERVE_FROM", 10_000)
    monkeypatch.setattr(local_file, "_RESERVE_MOST", 200_000)
    monkeypatch.setattr(local_file, "_MOST_WAITING", 5_000)


def written(path: Path) -> bytes:
    """Make a file of pieces of many sizes, the last of which fill little of what was asked for; what it must have."""
    rng, content = random.Random(1), bytearray()
    file = NewFile(str(path))
    for size in (3_000, 0, 9_000, 100, 70_000, 300_000, 5_001, 1, 40):
        content += rng.randbytes(size)
        file.append(bytes(content[len(content) - size :]))
        assert file.read(0, len(content)) == content
    file.close()
    file.close()
    return bytes(content)


def test_space_that_is_not_needed_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    reserve = os.posix_fallocate

    def note(descriptor: int, begin: int, size: int) -> None:
        asked.append(begin + size)
        reserve(descriptor, begin, size)

    monkeypatch.setattr(os, "posix_fallocate", note)
    content = written(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == content
    # Once for what each was asked for ahead, and not beyond the bound.
    assert len(asked) < 6
    assert len(content) < asked[-1] <= len(content) + 200_000
    assert (tmp_path / "file").stat().st_blocks * 512 < len(content) + 8192


def test_no_call_writes_much_and_calls_that_write_less_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_file, "_AT_ONCE", 4_096)
    monkeypatch.setattr(local_file, "_MOST_PARTS", 3)
    sizes: list[int] = []
    write = os.writev

    def half(descriptor: int, parts: list[memoryview]) -> int:
        assert len(parts) <= 3
        sizes.append(sum(map(len, parts)))
        return write(descriptor, [parts[0][: len(parts[0]) // 2 + 1]])

    monkeypatch.setattr(os, "writev", half)
    content = written(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == content
    assert max(sizes) == 4_096


def test_a_disk_that_has_no_space_ahead_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    content = written(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == content
    monkeypatch.delattr(os, "posix_fallocate")
    assert written(tmp_path / "other") == content


def test_a_file_that_becomes_another_has_its_length(tmp_path: Path) -> None:
    first, second = NewFile(str(tmp_path / "first")), NewFile(str(tmp_path / "second"))
    first.append(b"a" * 50_000)
    assert first.read(49_999, 9) == b"a"
    second.append(b"b" * 30_000)
    second.seek(10_000)
    second.append(b"c" * 35_000)
    first.become(second)
    first.append(b"d")
    first.close()
    assert (tmp_path / "first").read_bytes() == b"b" * 10_000 + b"c" * 35_000 + b"d"
    assert os.listdir(tmp_path) == ["first"]
