"""Lookup files that are shared: by buckets of several tables, by threads, by processes, by those that get killed."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import stat
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.lookup import LookupDirectory, LookupFileCache, ValueProcessor, hash_writer
from paimon_spark.lookup import lookup_directory as lookup_directory_module
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.rows import compact_row
from tests.faults.fault_disk import ENDED, ENDED_HALFWAY, FaultDisk
from tests.lookup.levels import Levels, cache_in, columns_of, names_of, random_levels, schema_of
from tests.processes import exit_codes
from tests.sizes import seeded, sized

FORK = multiprocessing.get_context("fork")
KEYS = [(k, n) for k in range(-32, 62) for n in ("", "a", "b")]
BOTH = pytest.mark.parametrize("kind", ["hash", "sort"])


class CountingDirectory(LookupDirectory):
    """Notes each file that is built and each that is dropped, in memory and in the file ``log``, if there is one."""

    def __init__(self, parent: Path, log: Path | None = None) -> None:
        parent.mkdir(exist_ok=True)
        super().__init__(str(parent))
        self.built: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._log = log

    def obtain(self, name: str, build: Callable[[str], None]) -> str:
        def counted(path: str) -> None:
            with self._counting:
                self.built[name] += 1
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(f"{name}\n")
            build(path)

        return super().obtain(name, counted)

    def drop(self, name: str) -> bool:
        gone = super().drop(name)
        with self._counting:
            self.dropped[name] += gone
        return gone


def cache_of(directory: LookupDirectory, max_bytes: int | None = None) -> LookupFileCache:
    return LookupFileCache(directory, LookupMemory(1 << 20), max_bytes)


@BOTH
@pytest.mark.parametrize("threads", [1, 4])
def test_r17_a_cache_of_one_file_changes_no_answer_and_builds_once_an_eviction(
    kind: str, threads: int, tmp_path: Path
) -> None:
    levels = random_levels(tmp_path, schema_of(kind), 17)
    everything = cache_in(tmp_path / "everything")
    expected = names_of(levels.open(ValueProcessor(None, True), everything).lookup_many(columns_of(KEYS), 0))
    assert expected == [answer and answer[0] for answer in (levels.expected(key, 0, {}) for key in KEYS)]
    largest = max(file.size for file in everything.directory.files())
    directory = CountingDirectory(tmp_path / "one")
    opened = levels.open(ValueProcessor(None, True), cache_of(directory, largest))
    answers: list[list[str | None]] = []

    def ask() -> None:
        for _ in range(3):
            answers.append(names_of(opened.lookup_many(columns_of(KEYS), 0)))

    crew = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert answers == [expected] * (3 * threads)
    assert sum(file.size for file in directory.files()) <= largest
    assert len(directory.built) == len(levels.files)
    assert all(times <= 1 + directory.dropped[name] for name, times in directory.built.items())
    if threads == 1:
        assert sum(directory.built.values()) > 2 * len(levels.files)


@BOTH
def test_r17_threads_build_a_file_once(kind: str, tmp_path: Path) -> None:
    levels = random_levels(tmp_path, schema_of(kind), 18)
    directory = CountingDirectory(tmp_path / "cache")
    opened = levels.open(ValueProcessor(None, True), cache_of(directory))
    ready = threading.Barrier(8)

    def ask() -> None:
        ready.wait()
        opened.lookup_many(columns_of(KEYS), 0)

    crew = [threading.Thread(target=ask) for _ in range(8)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert set(directory.built.values()) == {1}
    assert len(directory.built) == len(levels.files)


class DroppingDirectory(LookupDirectory):
    """Where others drop a file before it can be opened: so many ``times``."""

    times = 0

    def obtain(self, name: str, build: Callable[[str], None]) -> str:
        path = super().obtain(name, build)
        if self.times:
            self.times -= 1
            self.drop(name)
        return path


def test_r17_a_file_that_others_drop_before_it_is_opened_is_built_again(tmp_path: Path) -> None:
    levels = random_levels(tmp_path, schema_of(), 18)
    directory = DroppingDirectory(str(tmp_path))
    opened = levels.open(ValueProcessor(None, True), cache_of(directory))
    directory.times = 20
    expected = [answer and answer[0] for answer in (levels.expected(key, 0, {}) for key in KEYS)]
    assert names_of(opened.lookup_many(columns_of(KEYS), 0)) == expected
    opened.close()
    directory.times = 10**6
    with pytest.raises(StorageError, match=r"raise lookup\.cache-max-disk-size"):
        opened.lookup_many(columns_of(KEYS), 0)
    assert directory.files() == []


def test_a_file_is_let_go_of_where_the_directory_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = Levels(tmp_path, schema_of())
    levels.add(1, [(1, "a", 1.0, None)])
    cache = cache_in(tmp_path / "cache")
    opened = levels.open(ValueProcessor(None, True), cache)

    def refuse(*arguments: object, **named: object) -> dict[str, str]:
        raise StorageError("cannot list the lookup directory")

    with monkeypatch.context() as patched:
        patched.setattr(LookupDirectory, "excess", refuse)
        with pytest.raises(StorageError, match="cannot list"):
            opened.lookup((1, "a"), 1)
    assert opened.lookup((1, "a"), 1).found.all()
    opened.close()
    assert [path for path in map(os.path.realpath, Path("/proc/self/fd").iterdir()) if str(tmp_path) in path] == []


@BOTH
def test_r17_threads_without_room_for_one_file_all_get_their_answers(kind: str, tmp_path: Path) -> None:
    """Each drops the file that others are about to open, and what it opened may be gone before the cache has it."""
    levels = Levels(tmp_path, schema_of(kind))
    levels.add(1, [(k, "a", 1.0, None) for k in range(20)])
    opened = levels.open(ValueProcessor(None, True), cache_of(LookupDirectory(str(tmp_path)), 1))
    found: list[bool] = []

    def ask() -> None:
        for _ in range(30):
            found.append(opened.lookup((5, "a"), 1).found.all())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    crew = [threading.Thread(target=ask) for _ in range(8)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    sys.setswitchinterval(before)
    assert found == [True] * 240


def test_r17_processes_build_a_file_once(tmp_path: Path) -> None:
    levels, log = random_levels(tmp_path, schema_of("sort"), 19), tmp_path / "log"
    expected = [answer and answer[0] for answer in (levels.expected(key, 0, {}) for key in KEYS)]
    start = FORK.Event()

    def ask() -> None:
        start.wait()
        opened = levels.open(ValueProcessor(None, True), cache_of(CountingDirectory(tmp_path / "cache", log)))
        os._exit(0 if names_of(opened.lookup_many(columns_of(KEYS), 0)) == expected else 1)

    processes = [FORK.Process(target=ask) for _ in range(8)]
    for process in processes:
        process.start()
    start.set()
    assert exit_codes(processes) == [0] * 8
    built = log.read_text().splitlines()
    assert len(built) == len(set(built)) == len(levels.files)


@BOTH
def test_r28_two_tables_with_the_same_buckets_and_file_names_never_meet(kind: str, tmp_path: Path) -> None:
    """Eight buckets of each, whose data files have equal names and sizes and other rows, in one directory."""
    buckets: dict[tuple[str, int], Levels] = {}
    for table in ("orders", "others"):
        for bucket in range(8):
            levels = Levels(tmp_path / table, schema_of(kind), bucket)
            levels.add(3, [(k, "a", float(bucket), table) for k in range(20)], name="data-0.parquet")
            levels.add(2, [(k, "a", float(bucket), table) for k in range(bucket, 20, 8)], name="data-1.parquet")
            buckets[table, bucket] = levels
    cache = cache_in(tmp_path / "cache")
    opened = {at: levels.open(ValueProcessor(levels.schema.fields, True), cache) for at, levels in buckets.items()}
    keys = [(k, "a") for k in range(25)]

    def wrong() -> int:
        count = 0
        for (table, bucket), lookup in opened.items():
            hits = lookup.lookup_many(columns_of(keys), 1)
            assert hits.rows is not None
            assert hits.found.tolist() == [k < 20 for k, _ in keys]
            count += sum(row["v"] != bucket or row["s"] != table for row in hits.rows.values.to_pylist())
            files = [levels and levels[0] for levels in (buckets[table, bucket].expected(k, 1, {}) for k in keys)]
            count += names_of(hits) != files
        return count

    assert wrong() == 0
    assert len(cache.names) == len(set(cache.names)) == 32
    opened["orders", 3].update(buckets["orders", 3].files[:1])
    assert len(cache.directory.files()) == 31
    opened["orders", 3].close()
    assert len(cache.directory.files()) == 30
    opened["orders", 3].update(buckets["orders", 3].files)
    assert wrong() == 0


def test_files_of_earlier_runs_go_when_their_data_files_have_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A later run of a bucket drops what an earlier one built, and nothing of other buckets or under construction; it
    says so in a line each."""
    caplog.set_level(logging.INFO, "paimon_spark.lookup")
    levels, other = Levels(tmp_path, schema_of()), Levels(tmp_path, schema_of(), bucket=1)
    for k in range(4):
        levels.add(1 + k, [(k, "a", 1.0, None)])
    other.add(1, [(9, "a", 1.0, None)])
    keys = columns_of([(k, "a") for k in range(10)])
    first = cache_in(tmp_path / "cache")
    for bucket in (levels, other):
        for processor in (ValueProcessor(None, True), ValueProcessor(None, False)):
            run = bucket.open(processor, first)
            assert run.lookup_many(keys, 1).found.any()
            run.close(keep=True)
    assert len(first.directory.files()) == 10
    building = Path(first.directory.path, ".build-" + first.directory.files()[0].name)
    building.mkdir()
    gone = levels.files.pop(0)
    later = cache_in(tmp_path / "cache")
    building.mkdir()
    caplog.clear()
    run = levels.open(ValueProcessor(None, True), later)
    assert [("(explicit)" in line, gone.name in line) for line in caplog.messages] == [(True, True)] * 2
    assert len(later.directory.files()) == 8
    assert building.exists()
    assert run.lookup_many(keys, 1).found.tolist() == [False, True, True, True] + [False] * 6
    assert sorted(file.name for file in later.directory.files() if gone.name in file.name) == []
    run.drop_file(levels.files[0].name)
    assert len(later.directory.files()) == 6
    run.close()
    assert len(later.directory.files()) == 2
    assert all("bucket-1" in file.name for file in later.directory.files())


def test_a_file_that_another_run_drops_answers_on(tmp_path: Path) -> None:
    levels = Levels(tmp_path, schema_of("hash"))
    levels.add(1, [(k, "a", 1.0, None) for k in range(2000)])
    cache = cache_in(tmp_path / "cache", memory=0)
    opened = levels.open(ValueProcessor(None, True), cache)
    with cache.use(opened._source(levels.files[0])) as file:
        keys = compact_row.encode(columns_of([(k, "a") for k in range(2000)]), opened._types)
        before = file.get_many(keys)
        other = cache_in(tmp_path / "cache")
        assert Levels(tmp_path, schema_of("hash")).open(ValueProcessor(None, True), other) is not None
        assert other.directory.files() == []
        assert file.get_many(keys).equals(before)
    assert opened.lookup_many(columns_of([(5, "a")]), 1).found.all()
    assert len(cache.directory.files()) == 1


def test_damage_that_shows_in_a_lookup_is_built_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for kind in ("hash", "sort"):
        levels = Levels(tmp_path / kind, schema_of(kind))
        levels.add(2, [(k, "a", 1.0, None) for k in range(500)])
        cache = cache_in(tmp_path / "cache", memory=0)
        opened = levels.open(ValueProcessor(None, True), cache)
        keys = columns_of([(k, "a") for k in range(500)])
        positions = opened.lookup_many(keys, 1).positions
        assert positions is not None
        path = Path(cache.directory.path, cache.names[0], "data")
        whole = bytearray(path.read_bytes())
        opened.close(keep=True)
        whole[len(whole) // 3] ^= 1
        path.write_bytes(whole)
        caplog.clear()
        opened = levels.open(ValueProcessor(None, True), cache_in(tmp_path / "cache"))
        again = opened.lookup_many(keys, 1).positions
        assert again is not None
        assert again.tolist() == positions.tolist() == list(range(500))
        assert "built again" in caplog.text
        opened.close()


@BOTH
@pytest.mark.parametrize("how", [ENDED, ENDED_HALFWAY])
def test_r5_a_builder_killed_at_any_call_leaves_nothing_that_is_used(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL before, or in the middle of, each call that the building of two lookup files makes on the local disk;
    a hash file becomes of a temporary one that holds its values already."""
    monkeypatch.setattr(hash_writer, "_PLACED_FROM", 0)
    levels = Levels(tmp_path, schema_of(kind, lookup_cache__spill__compression="none"))
    for level in (1, 2):
        levels.add(level, [(level * 100 + k, "a", 1.0, "x" * k) for k in range(50)])
    keys = [(k, "a") for k in range(90, 260)]
    expected = [answer and answer[0] for answer in (levels.expected(key, 0, {}) for key in keys)]

    def look_up(path: Path) -> LookupFileCache:
        cache = cache_in(path)
        assert names_of(levels.open(ValueProcessor(None, True), cache).lookup_many(columns_of(keys), 1)) == expected
        return cache

    disk = FaultDisk()
    with monkeypatch.context() as patched:
        disk.install_under_lookups(patched)
        look_up(tmp_path / "plain")
    calls = len(disk.log)
    assert disk.log.count("rename") == (4 if kind == "hash" else 2)
    stride = sized(3, 1)
    kills = list(range(seeded(f"{kind}, {how}").randrange(stride), calls, stride))

    def die(number: int) -> None:
        disk.arm(number, how)
        disk.install_under_lookups(pytest.MonkeyPatch())
        look_up(tmp_path / str(number))
        os._exit(0)

    for number in kills:
        (tmp_path / str(number)).mkdir()
        process = FORK.Process(target=die, args=(number,))
        process.start()
        assert exit_codes([process]) == [-signal.SIGKILL], f"call {number} of {calls}, {disk.log[number]}"
        cache = look_up(tmp_path / str(number))
        left = [name for name in os.listdir(cache.directory.path) if not name.startswith(".lock")]
        assert sorted(left) == sorted(cache.names), f"after call {number}, {disk.log[number]}"
    print(f"{kind}, {how}: {len(kills)} kills at {calls} calls")


def test_s10_nothing_is_open_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for kind in ("hash", "sort"):
            levels = random_levels(tmp_path / kind, schema_of(kind), 20)
            cache = cache_in(tmp_path / "cache")
            levels.open(ValueProcessor(None, True), cache).lookup_many(columns_of(KEYS), 0)
    finally:
        os.umask(before)
    root = Path(cache.directory.path)
    seen = [root, *root.rglob("*")]
    assert len(seen) > 4 * len(levels.files)
    assert {oct(stat.S_IMODE(path.lstat().st_mode) & 0o077) for path in seen} == {"0o0"}


def test_s10_the_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have made the directory first, where all may write."""
    stranger = os.getuid() + 1
    Path(tmp_path, f"paimon-lookup-{stranger}").mkdir(mode=0o700)
    monkeypatch.setattr(lookup_directory_module.os, "getuid", lambda: stranger)
    with pytest.raises(StorageError, match="only this user"):
        LookupDirectory(str(tmp_path))
