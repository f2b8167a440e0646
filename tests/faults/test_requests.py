"""Every request to an object store goes wrong: refused, done but not answered, or done and answered by an error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from paimon_spark.storage.locate import locate
from tests.faults import sweep
from tests.faults.conftest import Use
from tests.sizes import seeded, sized
from tests.storage.object_server import ObjectServer


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.stop()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "eleven times"])
@pytest.mark.parametrize("fault", ["unavailable", "lost", "internal"])
def test_every_request_fails(server: ObjectServer, use: Use, fault: str, lasting: bool) -> None:
    storage, _ = locate("s3://bucket/t", server.options)
    use(storage)
    workload = sweep.COMPACTIONS
    assert workload.run("s3://bucket/plain") == (len(workload.steps), None)
    total, failed = len(server.requests), 0
    stride = sized(75 if lasting else 17, 7 if lasting else 1)
    for number in range(seeded(f"requests, {fault}, {lasting}").randrange(stride), total - 3, stride):
        path = f"s3://bucket/{number}"
        server.requests.clear()
        last = number + (10 if lasting else 0)

        def strike(method: str, key: str, number: int = number, last: int = last) -> str | None:
            return fault if number <= len(server.requests) - 1 <= last else None

        server.fault = strike
        done, problem = workload.run(path)
        assert len(server.requests) > number
        server.fault = lambda method, key: None
        try:
            if problem is not None:
                failed += 1
                workload.check_after_fault(path, done, problem)
            table = workload.finish(path, done)
            table.remove_orphan_files(timedelta(0))
            assert sweep.leftovers(table) == set()
        except Exception as broken:
            raise AssertionError(f"{fault} at {number} of {total}: {problem!r}") from broken
        server.objects.clear()
    how = "eleven times" if lasting else "once"
    print(f"requests, {fault}, {how}: every {stride}th of {total} failed, {failed} runs ended early")
