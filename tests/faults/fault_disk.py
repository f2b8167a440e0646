"""FaultDisk: a file system on which the Nth call fails, underneath LocalStorage or local lookup files.

Counted are the calls that touch the disk: link, fsync, unlink, replace, mkdir, open, scandir, stat, and the reads and
writes of files. A write that fails may have written a half (the disk is full), and any call may have been done
although it reports an error. Or the disk is full from the Nth call on: what needs room fails with ENOSPC, a write after
a half, while files can still be read and deleted. In lookup files a call may be the last one of its process instead.
"""

from __future__ import annotations

import errno
import io
import os
import signal
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from paimon_spark.lookup import local_file, lookup_directory
from paimon_spark.storage import local
from tests.faults.fault_storage import AFTER, BEFORE, TORN

FULL = "full"
TAKES_ROOM = frozenset({"link", "replace", "mkdir", "open", "write", "fsync"})
CALLS = frozenset({"link", "fsync", "unlink", "replace", "mkdir", "open", "scandir", "stat"})
LOOKUP_CALLS = frozenset(
    {"mkdir", "open", "writev", "rename", "utime", "lstat", "listdir", "scandir", "pread", "unlink"}
)
ENDED, ENDED_HALFWAY = "killed before", "killed halfway"


class FaultDisk:
    """Call number ``at`` (from 0) fails as ``fault`` says; all later ones too, if ``lasting``. ``log`` names them."""

    def __init__(self) -> None:
        self.arm(-1)

    def arm(self, at: int, fault: str = BEFORE, lasting: bool = False) -> None:
        """Begin to count anew."""
        self.at, self.fault, self.lasting = at, fault, lasting
        self.log: list[str] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this disk under LocalStorage."""
        monkeypatch.setattr(local, "os", _Os(self))
        monkeypatch.setattr(local, "io", _Io(self))

    def install_under_lookups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this disk, which is full when it fails, under lookup files and their directory."""
        for module in (local_file, lookup_directory):
            monkeypatch.setattr(module, "os", _LookupOs(self, os))

    def strikes(self, call: str) -> str | None:
        """Count a call; the fault that it is to have, or None."""
        number = len(self.log)
        self.log.append(call)
        if self.fault == FULL:
            return FULL if 0 <= self.at <= number and call in TAKES_ROOM else None
        if number == self.at:
            return self.fault
        return BEFORE if self.lasting and 0 <= self.at < number else None

    def failing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, counted."""

        def counted(*args: Any, **options: Any) -> Any:
            fault = self.strikes(name)
            if fault == AFTER:
                call(*args, **options)
            if fault is not None:
                raise OSError(errno.ENOSPC if fault == FULL else errno.EIO, f"injected fault in {name}")
            return call(*args, **options)

        return counted


class _Os:
    def __init__(self, disk: FaultDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._disk.failing(name, real) if name in CALLS else real


class _LookupOs:
    def __init__(self, disk: FaultDisk, real: ModuleType) -> None:
        self._disk, self._real = disk, real

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        return self._counted(name, real) if name in LOOKUP_CALLS else real

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            fault = self._disk.strikes(name)
            if fault is None:
                return real(*args, **options)
            if name == "writev" and fault in (TORN, ENDED_HALFWAY):
                os.write(args[0], args[1][0][: max(1, len(args[1][0]) // 2)])
            if fault in (ENDED, ENDED_HALFWAY):
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == AFTER:
                real(*args, **options)
            raise OSError(errno.ENOSPC, f"injected fault in {name}: no space left on device")

        return counted


class _Io:
    BufferedWriter = io.BufferedWriter

    def __init__(self, disk: FaultDisk) -> None:
        class FileIO(io.FileIO):
            def write(self, data: Any) -> int:
                fault = disk.strikes("write")
                if fault in (AFTER, TORN, FULL):
                    super().write(data if fault == AFTER else memoryview(data)[: len(data) // 2])
                if fault is not None:
                    raise OSError(errno.ENOSPC, "injected fault: no space left on device")
                return super().write(data)

            def readall(self) -> bytes:
                if disk.strikes("read") is not None:
                    raise OSError(errno.EIO, "injected fault in read")
                return super().readall()

        self.FileIO = FileIO
