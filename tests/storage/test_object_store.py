"""ObjectStorage: the promises of a storage, kept over HTTP; and what happens when a server does not answer."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import random
import runpy
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import CommitStateUnknown, StorageError
from paimon_spark.metadata.commit import Committer
from paimon_spark.metadata.schema import new_table_schema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.storage import object_store, ranged_file
from paimon_spark.storage.locate import locate
from paimon_spark.storage.object_store import ObjectStorage
from paimon_spark.storage.ranged_file import RangedFile
from paimon_spark.storage.storage import Storage
from paimon_spark.table import PaimonTable
from paimon_spark.types import fields_from_arrow
from tests.metadata.made_up import added
from tests.processes import exit_codes, received
from tests.sizes import seeded, sized
from tests.storage.fault_proxy import FaultProxy
from tests.storage.moto_server import MotoServer
from tests.storage.object_server import ObjectServer
from tests.storage.stores import Place, elsewhere, place_at, place_of


def test_a_file_of_several_parts(moto: MotoServer) -> None:
    storage, root = locate(f"s3a://bucket/{uuid.uuid4()}/x", moto.options)
    data = random.Random(0).randbytes(object_store._PART_SIZE)
    stream = storage.create(root)
    for _ in range(3):
        stream.write(data)
    assert stream.tell() == 3 * len(data)
    assert not storage.exists(root)
    stream.close()
    assert storage.read(root) == data * 3


def test_ranged_reads_are_those_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_file, "READ_AHEAD", 50)
    chance = seeded("ranged reads")
    for size in (0, 1, 49, 1000):
        data = chance.randbytes(size)
        tail = min(chance.choice((0, 1, 64)), size)
        file = RangedFile(lambda a, b, data=data: memoryview(data)[a:b], size, memoryview(data)[size - tail :])
        reference = io.BytesIO(data)
        for _ in range(300):
            place, count = chance.randrange(size + 5), chance.randrange(-1, 120)
            assert file.seek(place) == reference.seek(place) == file.tell()
            assert file.read(count) == reference.read(count)
        assert file.seek(0, io.SEEK_END) == size
        assert file.seek(-tail, io.SEEK_END) == size - tail
        assert file.readall() == data[size - tail :]


def test_paths_of_other_buckets_are_refused(server: ObjectServer) -> None:
    storage, root = locate("s3://bucket/t", server.options)
    for path in ("s3://other/t/x", "/etc/passwd", f"{root}/../../x", "s3://bucket-2/t"):
        with pytest.raises(StorageError, match="is not in s3://bucket"):
            storage.read(path)


def _forked(storage: Storage, root: str, pipe: object) -> None:
    try:
        storage.exists(root)
    except StorageError as refusal:
        pipe.send(str(refusal))  # type: ignore[attr-defined]


def test_a_forked_process_is_refused_instead_of_waiting_for_ever(server: ObjectServer) -> None:
    storage, root = locate("s3://bucket/t", server.options)
    assert not storage.exists(root)
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_forked, args=(storage, root, theirs))
    process.start()
    theirs.close()
    assert "'spawn' or 'forkserver'" in received(mine)
    assert exit_codes([process]) == [0]


# --------------------------------------------------------------------------- answers that are wrong or missing


def failing(answers: dict[str, list[str | None]]) -> object:
    """A fault that gives the next of its answers for each request of a snapshot, by method; then none."""

    def fault(method: str, key: str) -> str | None:
        return answers[method].pop(0) if "/snapshot-" in key and answers.get(method) else None

    return fault


def test_a_conflict_is_looked_at_and_tried_again(server: ObjectServer) -> None:
    storage, root = locate("s3://bucket/t", server.options)
    path = f"{root}/snapshot/snapshot-1"
    assert storage.put_if_absent(f"{root}/warm/up", b"")
    server.fault = failing({"PUT": ["conflict", "conflict"]})
    assert storage.put_if_absent(path, b"mine")
    server.fault = failing({"PUT": ["conflict"]})
    assert not storage.put_if_absent(path, b"other")
    assert server.objects["t/snapshot/snapshot-1"] == b"mine"


def test_endless_conflicts_are_an_error(server: ObjectServer) -> None:
    storage, root = locate("s3://bucket/t", server.options)
    server.fault = lambda method, key: "conflict" if method == "PUT" and "snapshot-" in key else None
    with pytest.raises(StorageError, match="conflicting puts 10 times"):
        storage.put_if_absent(f"{root}/snapshot-1", b"x")


@pytest.mark.parametrize("answer", ["lost", "internal", "unavailable"])
def test_a_put_without_an_answer_is_not_repeated_and_an_error(server: ObjectServer, answer: str) -> None:
    storage, root = locate("s3://bucket/t", server.options)
    assert storage.put_if_absent(f"{root}/warm/up", b"")
    server.fault = failing({"PUT": [answer]})
    with pytest.raises(StorageError, match="cannot publish"):
        storage.put_if_absent(f"{root}/snapshot/snapshot-1", b"x")
    assert [r for r in server.requests if r == ("PUT", "t/snapshot/snapshot-1")] == [("PUT", "t/snapshot/snapshot-1")]
    assert ("t/snapshot/snapshot-1" in server.objects) == (answer != "unavailable")


def test_reads_and_plain_writes_are_repeated(server: ObjectServer) -> None:
    storage, root = locate("s3://bucket/t", server.options)
    failures = iter(["unavailable", "unavailable"] * 3)
    server.fault = lambda method, key: next(failures, None)
    storage.write(f"{root}/x", b"data")
    assert storage.read(f"{root}/x") == b"data"


def test_a_store_that_ignores_conditions_is_refused(server: ObjectServer) -> None:
    server.fault = lambda method, key: "careless"
    storage, root = locate("s3://bucket/t", server.options)
    path = f"{root}/snapshot/snapshot-1"
    for _ in range(2):
        with pytest.raises(StorageError, match=r"ignores the condition.*commit\.unsafe"):
            storage.put_if_absent(path, b"x")
    assert server.objects == {}
    unsafe, _ = locate("s3://bucket/t", {**server.options, "commit.unsafe": "true"})
    assert unsafe.put_if_absent(path, b"x")
    assert not unsafe.put_if_absent(path, b"y")
    assert server.objects == {"t/snapshot/snapshot-1": b"x"}


# --------------------------------------------------------------------------- commits


def new_table(storage: Storage, root: str) -> tuple[TableMetadata, Committer]:
    fields, highest = fields_from_arrow(pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())]))
    schema = new_table_schema(fields, highest, ["k"], [], {"bucket": "2"}, None, 0)
    metadata = TableMetadata(storage, root)
    assert metadata.schemas.create(schema)
    return metadata, Committer(metadata, schema, "me")


def committed(metadata: TableMetadata) -> list[Snapshot]:
    return [metadata.snapshots.get(id_) for id_ in metadata.snapshots.ids()]


Faulty = tuple[Place, ObjectServer | FaultProxy]
"""A place, and who can be made to fail on the way there."""


@pytest.fixture(params=["s3-own", "gs-own", "azure", "gs"])
def faulty(request: pytest.FixtureRequest) -> Iterator[Faulty]:
    """Servers that fail by themselves, and others behind a proxy."""
    if request.param.endswith("-own"):
        yield place_of(request.param, request), request.getfixturevalue("server")
        return
    proxy = FaultProxy(elsewhere(request.param))
    yield place_at(request.param, proxy.endpoint), proxy
    proxy.stop()


def test_ambiguous_commits_are_applied_exactly_once(faulty: Faulty) -> None:
    place, server = faulty
    metadata, committer = new_table(*locate(*place))
    commits = sized(100, 2000)
    chance = seeded(f"ambiguous commits, {place[0][:2]}")
    faults = ["lost", "internal", "unavailable", *(["conflict"] if place[0].startswith("s3:") else [])]
    for number in range(commits):
        server.fault = failing({"PUT": chance.choices(faults, k=chance.randrange(1, 3))})
        assert committer.append([added()], identifier=number).id == number + 1
    server.fault = lambda method, key: None
    assert [s.commit_identifier for s in committed(metadata)] == list(range(commits))
    manifests = {file.name for file in metadata.storage.list(metadata.paths.manifest_directory)}
    assert manifests == {name for s in committed(metadata) for name in referenced(metadata, s)}


def referenced(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[str]:
    yield snapshot.base_manifest_list
    yield snapshot.delta_manifest_list
    yield from (manifest.name for manifest in metadata.manifests.of_snapshot(snapshot))


def test_a_store_that_never_answers_leaves_everything(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    metadata, committer = new_table(*locate("s3://bucket/t", server.options))
    committer.append([added()])
    puts: list[str] = []

    def fault(method: str, key: str) -> str | None:
        if not key.endswith("snapshot-2") or (method != "PUT" and not puts):
            return None
        puts.append(method)
        return "lost" if len(puts) == 1 else "conflict"

    server.fault = fault
    with pytest.raises(CommitStateUnknown, match="did not say whether"):
        committer.append([added()])
    server.fault = lambda method, key: None
    (_, second) = committed(metadata)
    assert metadata.manifests.of_snapshot(second)


def test_every_concurrent_commit_makes_a_snapshot(moto: MotoServer) -> None:
    storage, root = locate(f"s3://bucket/{uuid.uuid4()}", moto.options)
    metadata, _ = new_table(storage, root)
    schema = metadata.schemas.get(0)
    threads, commits = 8, sized(3, 25)
    barrier, failures = threading.Barrier(threads), []

    def work(number: int) -> None:
        try:
            committer = Committer(metadata, schema, f"user-{number}")
            barrier.wait()
            for identifier in range(commits):
                committer.append([added()], identifier=identifier)
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    found = committed(metadata)
    assert [s.id for s in found] == list(range(1, threads * commits + 1))
    for number in range(threads):
        mine = [s.commit_identifier for s in found if s.commit_user == f"user-{number}"]
        assert mine == list(range(commits))
    assert found[-1].total_record_count == 10 * threads * commits


# --------------------------------------------------------------------------- secrets, and what is said of them

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])


def test_credentials_appear_nowhere(server: ObjectServer) -> None:
    table = PaimonTable.create("s3://bucket/t", SCHEMA, ["id"], options={**server.options, "bucket": "1"})
    table.append(pa.table({"id": [1], "a": [1]}))
    opened = PaimonTable.open("s3://bucket/t", server.options)
    scan = opened.scan(options=server.options)
    shown = [
        *(repr(value) for value in (opened.metadata, opened.table_schema, opened.options, scan, scan.splits)),
        str(opened.metadata.storage),
        repr(dict(opened.options)),
    ]
    for answer in ("unavailable", "internal", "conflict"):
        server.fault = lambda method, key, answer=answer: answer if "snapshot" in key else None
        storage, root = locate("s3://bucket/t", server.options)
        with pytest.raises(StorageError) as caught:
            storage.put_if_absent(f"{root}/snapshot/snapshot-9", b"")
        shown.append(repr(caught.value))
        shown.append(repr(caught.value.__cause__))
    assert not [text for text in shown if "CANARY" in text]
    for data in (*server.objects.values(), pickle.dumps(scan.splits)):
        assert b"CANARY" not in data
    assert b"CANARY" in pickle.dumps(scan)


def test_who_asks(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options go before Hadoop's configuration, that before the environment, and no key gets another's token."""

    def asks(options: dict[str, str]) -> tuple[str, str | None]:
        storage, root = locate("s3://bucket/t", {"s3.endpoint": server.endpoint, **options})
        storage.write(f"{root}/x", b"")
        return server.keys[-1]

    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.setenv(f"AWS_{name}", f"environment-{name}")
    assert asks({}) == ("environment-ACCESS_KEY_ID", "environment-SESSION_TOKEN")
    given = {"s3.access-key": "given", "s3.secret-key": "secret"}
    assert asks(given) == ("given", None)
    assert asks({**given, "s3.session-token": "token"}) == ("given", "token")
    properties = "".join(
        f"<property><name>fs.s3a.{name}</name><value>hadoop-{name}</value></property>"
        for name in ("access.key", "secret.key", "session.token")
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert asks({}) == ("hadoop-access.key", "hadoop-session.token")
    assert asks(given) == ("given", None)


def test_a_server_that_tells_secrets_is_not_quoted() -> None:
    config = ObjectStorage("s3", "s3://b", "b", locate("s3://b/t", {"s3.secret-key": "CANARY"})[0].config)
    with pytest.raises(StorageError) as caught, config.typed_errors("read", "s3://b/x"):
        raise OSError("signature of CANARY for http://host/x?sig=CANARY2&se=3 is wrong\n\nDebug source: CANARY3")
    assert "signature of *** for http://host/x?… is wrong" in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_what_the_readme_says_works(moto: MotoServer) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    section = readme.partition("\n## Object stores\n")[2].partition("\n## ")[0]
    code = section.partition("```python\n")[2].partition("```")[0]
    names = {
        "endpoint": moto.endpoint,
        "key": "any",
        "secret": "any",
        "arrow_schema": SCHEMA,
        "arrow_table": pa.table({"id": [1], "a": [2]}),
        "PaimonTable": PaimonTable,
    }
    exec(code, names)
    assert PaimonTable.open("s3://bucket/lake/orders", moto.options).read().num_rows == 1


def test_the_example_proves_what_it_shows(moto: MotoServer, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "object_store.py"))
    example["main"].__globals__["COMMITS"] = 3
    example["main"](f"s3://bucket/{uuid.uuid4()}", moto.options)
    assert "12 commits by 4 writers" in capsys.readouterr().out
