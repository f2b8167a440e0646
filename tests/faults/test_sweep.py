"""Every storage operation of a workload fails, in every way: no acknowledged commit is lost, none is half there."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.storage.local import LocalStorage
from tests.faults import sweep
from tests.faults.conftest import Use
from tests.faults.fault_storage import AFTER, BEFORE, SHORT, TORN, FaultStorage

READS = ("read", "read range of", "open", "list", "size", "exists")
WRITES = ("write", "write to", "create", "close", "put_if_absent", "replace", "delete")
# What fails in which way: a lost answer differs from a plain failure only where something was done.
OPERATIONS = {
    BEFORE: READS + WRITES,
    AFTER: WRITES,
    TORN: ("write", "write to", "create"),
    SHORT: ("read", "read range of"),
}
LONGEST_SECONDS = 5.0


def operations(path: Path, use: Use) -> list[tuple[str, str]]:
    """The operations of a workload without faults."""
    storage = FaultStorage()
    use(storage)
    assert sweep.run(str(path)) == (len(sweep.STEPS), None)
    return storage.log


CASES = [(BEFORE, False), (BEFORE, True), (AFTER, False), (AFTER, True), (TORN, False), (SHORT, False)]


@pytest.mark.parametrize(("fault", "lasting"), CASES, ids=lambda value: value if isinstance(value, str) else None)
def test_every_operation_fails(tmp_path: Path, use: Use, fault: str, lasting: bool) -> None:
    log = operations(tmp_path / "plain", use)
    at = [number for number, (operation, _) in enumerate(log) if operation in OPERATIONS[fault]]
    assert at
    failed = 0
    for number in at:
        path = str(tmp_path / str(number))
        storage = FaultStorage(number, fault, lasting)
        use(storage)
        start = time.monotonic()
        done, problem = sweep.run(path)
        assert time.monotonic() - start < LONGEST_SECONDS
        assert storage.struck, f"operation {number} never happened"
        use(LocalStorage())
        context = f"{fault} at {number}, {log[number]}: {problem!r}"
        try:
            if problem is not None:
                failed += 1
                sweep.check_after_fault(path, done, problem)
            table = sweep.finish(path, done)
            if fault != AFTER and not lasting and log[number][0] not in ("delete", "write"):
                assert sweep.leftovers(table) == set()
            table.remove_orphan_files(timedelta(0))
            assert sweep.leftovers(table) == set()
            sweep.check_every_snapshot(table)
        except Exception as broken:
            raise AssertionError(context) from broken
    print(f"\n{fault}, {'for good' if lasting else 'once'}: {len(at)} operations failed, {failed} runs ended early")


def test_the_workload_uses_every_kind_of_operation(tmp_path: Path, use: Use) -> None:
    seen = {operation for operation, _ in operations(tmp_path / "t", use)}
    assert {"read", "read range of", "open", "list", "write", "write to", "create", "close"} <= seen
    assert {"put_if_absent", "replace", "exists"} <= seen
    assert os.listdir(tmp_path / "t" / "snapshot")
