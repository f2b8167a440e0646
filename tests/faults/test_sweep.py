"""Every storage operation of a workload fails, in every way: no acknowledged commit is lost, none is half there."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.storage.local import LocalStorage
from paimon_spark.table import PaimonTable
from tests.faults import sweep
from tests.faults.conftest import Use
from tests.faults.fault_disk import FULL, TAKES_ROOM, FaultDisk
from tests.faults.fault_storage import AFTER, BEFORE, SHORT, TORN, FaultStorage
from tests.faults.sweep import Workload
from tests.sizes import seeded, sized

READS = ("read", "read range of", "open", "list", "size", "exists")
WRITES = ("write", "write to", "create", "close", "put_if_absent", "replace", "delete")
# What fails in which way: a lost answer differs from a plain failure only where something was done.
OPERATIONS = {
    BEFORE: READS + WRITES,
    AFTER: WRITES,
    TORN: ("write", "write to", "create"),
    SHORT: ("read", "read range of"),
}
# Of CPU time: nothing runs without end.
LONGEST_SECONDS = 60.0


CASES = [(BEFORE, False), (BEFORE, True), (AFTER, False), (AFTER, True), (TORN, False), (SHORT, False)]
WORKLOADS = {"appends": (sweep.APPENDS, 1), "compactions": (sweep.COMPACTIONS, sized(10, 1))}


def operations(path: Path, use: Use, workload: Workload) -> list[tuple[str, str]]:
    """The operations of a workload without faults."""
    storage = FaultStorage()
    use(storage)
    assert workload.run(str(path)) == (len(workload.steps), None)
    return storage.log


@pytest.mark.parametrize("name", list(WORKLOADS))
@pytest.mark.parametrize(("fault", "lasting"), CASES, ids=lambda value: value if isinstance(value, str) else None)
def test_every_operation_fails(tmp_path: Path, use: Use, fault: str, lasting: bool, name: str) -> None:
    workload, stride = WORKLOADS[name]
    log = operations(tmp_path / "plain", use, workload)
    at = [number for number, (operation, _) in enumerate(log) if operation in OPERATIONS[fault]]
    assert at
    at = at[seeded(f"{name}, {fault}, {lasting}").randrange(stride) :: stride]
    failed = 0
    for number in at:
        path = str(tmp_path / str(number))
        storage = FaultStorage(number, fault, lasting)
        use(storage)
        start = time.process_time()
        done, problem = workload.run(path)
        assert time.process_time() - start < LONGEST_SECONDS
        assert storage.struck, f"operation {number} never happened"
        use(LocalStorage())
        context = f"{fault} at {number}, {log[number]}: {problem!r}"
        try:
            if problem is not None:
                failed += 1
                workload.check_after_fault(path, done, problem)
            table = workload.finish(path, done)
            if not lasting and log[number][0] not in ("write", "delete") and workload.leaves_nothing(done, problem):
                # Writing and deleting promise to leave nothing; there the fault is in that promise.
                assert sweep.leftovers(table) == set()
            table.remove_orphan_files(timedelta(0))
            assert sweep.leftovers(table) == set()
            assert sweep.rows_of(table) == sweep.expected(len(sweep.FEEDS))
        except Exception as broken:
            raise AssertionError(context) from broken
    how = "for good" if lasting else "once"
    print(f"{name}, {fault}, {how}: {len(at)} of {len(log)} operations failed, {failed} runs ended early")


@pytest.mark.parametrize(("fault", "lasting"), [(BEFORE, False), (BEFORE, True), (AFTER, False), (TORN, False)])
def test_every_call_of_the_disk_fails(
    tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch, fault: str, lasting: bool
) -> None:
    disk, workload = FaultDisk(), sweep.APPENDS
    disk.install(monkeypatch)
    use(LocalStorage())
    assert workload.run(str(tmp_path / "plain")) == (len(workload.steps), None)
    log = disk.log
    at = [number for number, call in enumerate(log) if fault != TORN or call == "write"]
    stride = sized(6, 1)
    at = at[seeded(f"disk, {fault}, {lasting}").randrange(stride) :: stride]
    failed = 0
    for number in at:
        path = str(tmp_path / str(number))
        disk.arm(number, fault, lasting)
        done, problem = workload.run(path)
        assert len(disk.log) > number, f"call {number} never happened"
        disk.arm(-1)
        try:
            if problem is not None:
                failed += 1
                workload.check_after_fault(path, done, problem)
            table = workload.finish(path, done)
            table.remove_orphan_files(timedelta(0))
            assert sweep.leftovers(table) == set()
            assert not list(Path(path).rglob("*.tmp"))
        except Exception as broken:
            raise AssertionError(f"{fault} at {number}, {log[number]}: {problem!r}") from broken
    how = "for good" if lasting else "once"
    print(f"disk, {fault}, {how}: {len(at)} of {len(log)} calls failed, {failed} runs ended early")


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data files, deletion vectors, manifests, lists, the snapshot: none fits from some call on. Files can be deleted,
    and so all that the failed step had written is."""
    disk, workload = FaultDisk(), sweep.COMPACTIONS
    disk.install(monkeypatch)
    use(LocalStorage())
    assert workload.run(str(tmp_path / "plain")) == (len(workload.steps), None)
    log = disk.log
    at = [number for number, call in enumerate(log) if call in TAKES_ROOM]
    stride = sized(16, 1)
    at = at[seeded("full disk").randrange(stride) :: stride]
    failed = 0
    for number in at:
        path = str(tmp_path / str(number))
        disk.arm(number, FULL)
        done, problem = workload.run(path)
        assert len(disk.log) > number, f"call {number} never happened"
        disk.arm(-1)
        try:
            if problem is not None:
                failed += 1
                workload.check_after_fault(path, done, problem)
                if PaimonTable.exists(path):
                    assert sweep.leftovers(PaimonTable.open(path)) == set()
            assert sweep.leftovers(workload.finish(path, done)) == set()
        except Exception as broken:
            raise AssertionError(f"full at {number}, {log[number]}: {problem!r}") from broken
    print(f"disk, full: {len(at)} of {len(log)} calls, {failed} runs ended early")


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_the_workload_uses_every_kind_of_operation(tmp_path: Path, use: Use, name: str) -> None:
    seen = {operation for operation, _ in operations(tmp_path / "t", use, WORKLOADS[name][0])}
    assert {"read", "read range of", "open", "list", "write", "write to", "create", "close"} <= seen
    assert {"put_if_absent", "replace", "exists", "delete"} <= seen
