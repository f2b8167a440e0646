"""The node's directory: built once, published whole, private, and clean after a killed builder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import StorageError
from paimon_spark.lookup import LookupDirectory, LookupFileCache
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.lookup_directory import local_directory
from paimon_spark.lookup.lookup_file_cache import LookupSource
from paimon_spark.lookup.store_reader import StoreReader
from tests.lookup.stores import build, reader
from tests.processes import LONGEST_SECONDS, exit_codes

FORK = multiprocessing.get_context("fork")
PAIRS = {b"%05d" % i: b"value %d" % i for i in range(5000)}


def build_pairs(path: str) -> None:
    build("hash", path, PAIRS, 0.05, "lz4")


def ask_after_one_build(parent: Path, start: Event, log: Path) -> None:
    def logged_build(path: str) -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        build_pairs(path)

    start.wait()
    opened = reader("hash", LookupDirectory(str(parent)).obtain("one", logged_build))
    os._exit(0 if opened.get_many(list(PAIRS)).to_pylist() == list(PAIRS.values()) else 1)


def test_eight_processes_build_a_file_once(tmp_path: Path) -> None:
    start, log = FORK.Event(), tmp_path / "log"
    processes = [FORK.Process(target=ask_after_one_build, args=(tmp_path, start, log)) for _ in range(8)]
    for process in processes:
        process.start()
    start.set()
    assert exit_codes(processes) == [0] * 8
    assert len(log.read_text().splitlines()) == 1


def build_until_killed(parent: Path, reached: Event) -> None:
    def half_build(path: str) -> None:
        build_pairs(path)
        reached.set()
        signal.pause()

    LookupDirectory(str(parent)).obtain("one", half_build)


def test_what_a_killed_builder_left_is_never_trusted(tmp_path: Path) -> None:
    reached = FORK.Event()
    builder = FORK.Process(target=build_until_killed, args=(tmp_path, reached), daemon=True)
    builder.start()
    assert reached.wait(LONGEST_SECONDS)
    directory = LookupDirectory(str(tmp_path))
    assert directory.files() == []
    left = Path(directory.path, ".build-one", "data")
    assert left.exists(), "a builder that is alive keeps its directory"
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join()
    left.write_bytes(b"garbage")
    path = directory.obtain("one", build_pairs)
    assert reader("hash", path).get_many(list(PAIRS)).to_pylist() == list(PAIRS.values())
    assert not left.exists()


def test_leftovers_go_when_a_process_starts(tmp_path: Path) -> None:
    directory = LookupDirectory(str(tmp_path))
    path = directory.obtain("one", build_pairs)
    for name in (".build-one", ".build-never asked for again", ".drop-1"):
        Path(directory.path, name).mkdir()
        Path(directory.path, name, "data").write_bytes(b"x")
    Path(directory.path, ".lock-00").touch()
    with pytest.raises(ZeroDivisionError):
        directory.obtain("never asked for again", lambda path: print(1 // 0))
    LookupDirectory(str(tmp_path))
    assert sorted(n for n in os.listdir(directory.path) if not n.startswith(".lock")) == ["one"]
    assert os.path.exists(path)


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    directory = LookupDirectory(str(tmp_path))

    def failing(path: str) -> None:
        Path(path).write_bytes(b"half")
        raise StorageError("the local disk is full")

    with pytest.raises(StorageError, match="full"):
        directory.obtain("one", failing)
    assert [n for n in os.listdir(directory.path) if not n.startswith(".lock")] == []
    assert directory.obtain("one", build_pairs)


def test_the_directory_is_private(tmp_path: Path) -> None:
    directory = LookupDirectory(str(tmp_path))
    path = directory.obtain("one", build_pairs)
    assert stat.S_IMODE(os.stat(directory.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    for name in os.listdir(os.path.dirname(path)):
        assert stat.S_IMODE(os.stat(os.path.join(os.path.dirname(path), name)).st_mode) == 0o600


def test_links_files_and_open_directories_are_refused(tmp_path: Path) -> None:
    name = f"paimon-lookup-{os.getuid()}"
    for number, make in enumerate(
        (
            lambda path: path.symlink_to(tmp_path, target_is_directory=True),
            lambda path: path.write_bytes(b""),
            lambda path: (path.mkdir(), path.chmod(0o755)),
        )
    ):
        parent = tmp_path / str(number)
        parent.mkdir()
        make(parent / name)
        with pytest.raises(StorageError, match="not a link"):
            LookupDirectory(str(parent))
    with pytest.raises(StorageError, match="cannot make"):
        LookupDirectory(str(tmp_path / "absent"))


def test_spark_says_where_local_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert local_directory() == str(tmp_path)
    assert LookupDirectory().path.startswith(str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "absent"))
    assert os.path.isdir(local_directory())


def test_what_is_old_and_what_is_too_much_is_to_leave(tmp_path: Path) -> None:
    directory = LookupDirectory(str(tmp_path))
    places = [os.path.dirname(directory.obtain(f"file {number}", build_pairs)) for number in range(4)]
    for number, place in enumerate(places):
        os.utime(place, (1_000_000 + number, 1_000_000 + number))
    size = directory.files()[0].size
    directory.touch("file 1")
    assert directory.excess(None, 3600) == {"file 0": "age", "file 2": "age", "file 3": "age"}
    assert directory.excess(2 * size, 3600, spare="file 0") == {"file 2": "age", "file 3": "age"}
    for number in (0, 2, 3):
        os.utime(places[number], (time.time() - 60 + number,) * 2)
    assert directory.excess(2 * size, 3600, spare="file 1") == {"file 0": "size", "file 2": "size"}
    assert directory.excess(None, 3600) == {}


def bytes_in(directory: LookupDirectory) -> int:
    published = [path for path in Path(directory.path).iterdir() if not path.name.startswith(".")]
    return sum(part.stat().st_size for path in published for part in path.iterdir())


def test_a_bound_is_kept_and_no_file_measured_twice_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes build and open files in turns, with room for all but a few; each measures each file once."""
    measured: Counter[str] = Counter()
    scan = os.scandir

    def counted(path: str | int) -> Iterator[os.DirEntry[str]]:
        measured[str(path)] += 1
        return scan(path)

    monkeypatch.setattr(os, "scandir", counted)
    size = bytes_of_one(tmp_path / "one")
    directories = [LookupDirectory(str(tmp_path)) for _ in range(2)]
    caches = [LookupFileCache(directory, LookupMemory(1 << 20), 25 * size) for directory in directories]
    for number in range(30):
        for cache in (caches[number % 2], caches[1 - number % 2]):
            with cache.use(LookupSource(f"file {number}", "", build_pairs, open_pairs)) as file:
                assert file.get_many(pa.array([b"00007"], pa.binary())).to_pylist() == [b"value 7"]
            assert bytes_in(directories[0]) == directories[0].size() <= 25 * size
    assert len(directories[1].files()) > 20
    root = directories[0].path
    assert [times for path, times in measured.items() if path.startswith(f"{root}/file ")] == [2] * 30


def bytes_of_one(parent: Path) -> int:
    parent.mkdir()
    directory = LookupDirectory(str(parent))
    directory.obtain("one", build_pairs)
    return directory.size()


def open_pairs(path: str, memory: LookupMemory) -> StoreReader:
    return reader("hash", path, memory)


def fill_disk(kind: str, directory: Path, limit: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    values = {key: key * 40 for key in PAIRS}
    try:
        build(kind, directory / "file", values)
    except StorageError as problem:
        os._exit(0 if "cannot write" in str(problem) and list(directory.iterdir()) == [] else 2)
    os._exit(1)


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_no_room_for_a_file_is_a_clear_error_and_leaves_nothing(kind: str, tmp_path: Path) -> None:
    """The kernel refuses to let a file grow beyond a limit, at different moments of the build."""
    for limit in (0, 100, 70_000, 500_000, 1_000_000, 1_050_000):
        process = FORK.Process(target=fill_disk, args=(kind, tmp_path, limit))
        process.start()
        assert exit_codes([process]) == [0], limit
