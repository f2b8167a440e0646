"""Descriptors: a process looks through more files than it may have open."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.lookup import LookupFileCache, LookupLevels, ValueProcessor
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.rows import compact_row
from tests.lookup.levels import Levels, cache_in, columns_of, names_of, schema_of
from tests.lookup.stores import sort_context

FORK = multiprocessing.get_context("fork")
BOTH = pytest.mark.parametrize("kind", ["hash", "sort"])
DESCRIPTORS, FILES, ROWS = 36, 60, 8
KEYS = columns_of([(k, "a") for k in range(FILES * ROWS)])


def many_files(root: Path, kind: str, count: int = FILES) -> Levels:
    """A level of ``count`` files whose values are long, so that keys of sort files are listed beside them."""
    levels = Levels(root, schema_of(kind, lookup_cache__spill__compression="none"))
    for number in range(count):
        levels.add(1, [(number * ROWS + k, "a", float(k), f"{k}" * 400) for k in range(ROWS)])
    return levels


def look_up(opened: LookupLevels) -> list[str | None]:
    return names_of(opened.lookup_many(KEYS, 1))


def names_in(levels: Levels) -> list[str]:
    """The file of each of the first keys."""
    return [file.name for file in levels.files for _ in range(ROWS)]


def in_a_process_of_few_descriptors(ask: Callable[[], None]) -> None:
    """``ask``, in a process that may open ``DESCRIPTORS`` more files, however many it has inherited, and that keeps
    those: what other tests have left is not collected in it."""

    def limited() -> None:
        free = [os.open(os.devnull, os.O_RDONLY) for _ in range(DESCRIPTORS)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1] + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        for descriptor in free:
            os.close(descriptor)
        gc.freeze()
        ask()

    process = FORK.Process(target=limited)
    process.start()
    process.join()
    assert process.exitcode == 0


def inodes(cache: LookupFileCache) -> dict[str, int]:
    """The files that are published, none of which was built again if they stay the same."""
    root = Path(cache.directory.path)
    return {file.name: os.stat(root / file.name / "data").st_ino for file in cache.directory.files()}


def all_descriptors() -> list[int]:
    """Those that the process may still have, taken."""
    taken: list[int] = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    return taken


def open_below(root: Path) -> int:
    """Descriptors of files there. Those of other tests come and go."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{root}/")
    return found


@BOTH
@pytest.mark.parametrize("threads", [1, 4])
def test_r17_more_files_are_looked_through_than_descriptors_allow(kind: str, threads: int, tmp_path: Path) -> None:
    """Each is built once: to have no descriptor for it is no reason to delete it."""
    levels = many_files(tmp_path, kind)
    expected = names_in(levels)

    def ask() -> None:
        cache = cache_in(tmp_path / "cache")
        opened = levels.open(ValueProcessor(levels.schema.fields, True), cache)
        right = []

        def look() -> None:
            for _ in range(3):
                hits = opened.lookup_many(KEYS, 1)
                assert hits.rows is not None
                values = hits.rows.values["v"].to_pylist()
                right.append(names_of(hits) == expected and values == [*range(ROWS)] * FILES)

        crew = [threading.Thread(target=look) for _ in range(threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        assert right == [True] * 3 * threads
        assert len(cache.names) == FILES
        assert not open_below(tmp_path)
        for file in cache.directory.files():
            path = Path(cache.directory.path, file.name, "data")
            assert kind == "hash" or sort_context(path).keys is not None

    in_a_process_of_few_descriptors(ask)


@BOTH
def test_where_no_descriptor_is_left_it_is_said_and_later_all_is_well(kind: str, tmp_path: Path) -> None:
    """Others of the process hold all descriptors, or all but one, which is too few for a sort file that lists keys;
    what was opened before it failed is closed again."""
    levels = many_files(tmp_path, kind, 2)
    expected = [*names_in(levels), *[None] * (FILES - 2) * ROWS]

    def ask() -> None:
        cache = cache_in(tmp_path / "cache", memory=0)
        opened = levels.open(ValueProcessor(levels.schema.fields, True), cache)
        assert look_up(opened) == expected
        before = inodes(cache)
        for left in range(2 if kind == "sort" else 1):
            gc.collect()
            others = all_descriptors()
            for _ in range(left):
                os.close(others.pop())
            for _ in range(2):
                with pytest.raises(StorageError, match=r"cannot open lookup file .*Too many open files"):
                    look_up(opened)
            rest = all_descriptors()
            assert len(rest) == left
            for descriptor in (*others, *rest):
                os.close(descriptor)
            assert look_up(opened) == expected
        assert inodes(cache) == before

    in_a_process_of_few_descriptors(ask)


@BOTH
def test_a_file_that_cannot_be_opened_for_lack_of_descriptors_holds_none(kind: str, tmp_path: Path) -> None:
    """At whichever of its steps a cache that knows no file yet runs out of them."""
    levels = many_files(tmp_path, kind, 2)
    expected = look_up(levels.open(ValueProcessor(levels.schema.fields, True), cache_in(tmp_path / "cache")))

    def ask() -> None:
        failed = 0
        for left in range(4):
            cache = cache_in(tmp_path / "cache", max_bytes=10**6)
            opened = levels.open(ValueProcessor(levels.schema.fields, True), cache)
            gc.collect()
            others = all_descriptors()
            for _ in range(left):
                os.close(others.pop())
            try:
                assert look_up(opened) == expected
            except StorageError as problem:
                failed += "Too many open files" in str(problem)
            rest = all_descriptors()
            assert len(rest) == left
            for descriptor in (*others, *rest):
                os.close(descriptor)
            assert look_up(opened) == expected
        assert failed == 2

    in_a_process_of_few_descriptors(ask)


@BOTH
def test_a_file_stays_open_until_its_last_user_has_gone(kind: str, tmp_path: Path) -> None:
    """Whether it is only left, or dropped meanwhile; by then its descriptors are free."""
    levels = many_files(tmp_path, kind, 1)
    cache = cache_in(tmp_path / "cache", memory=0)
    opened = levels.open(ValueProcessor(levels.schema.fields, True), cache)
    source = opened._source(levels.files[0])
    keys = compact_row.encode([column.slice(0, ROWS) for column in KEYS], opened._types)
    for drop in (False, True):
        with cache.use(source) as file:
            values = file.get_many(keys)
            with cache.use(source) as same:
                assert same is file
            if drop:
                cache.drop(source.name)
            assert file.get_many(keys).equals(values)
            assert values.null_count == 0
        assert not open_below(tmp_path)
        assert file.pin() != drop
        if not drop:
            file.unpin()
    assert look_up(opened)[:ROWS] == names_in(levels)


@BOTH
def test_what_another_process_built_anew_is_used_as_it_is(kind: str, tmp_path: Path) -> None:
    levels = many_files(tmp_path, kind, 2)
    caches = [cache_in(tmp_path / "cache", memory=0) for _ in range(2)]
    ours, theirs = (levels.open(ValueProcessor(levels.schema.fields, True), cache) for cache in caches)
    expected = look_up(ours)
    assert expected[: 2 * ROWS] == names_in(levels)
    theirs.close()
    assert look_up(theirs) == expected
    published = inodes(caches[0])
    assert len(published) == 2
    assert look_up(ours) == expected
    assert inodes(caches[0]) == published


def test_a_file_is_opened_again_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def beside(content: bytes) -> Path:
        other = tmp_path / "other"
        other.write_bytes(content)
        return other

    for change in (
        lambda: path.unlink(),
        lambda: os.replace(beside(b"bytes"), path),
        lambda: path.write_bytes(b"other bytes"),
        lambda: os.utime(path, (1, 1)),
        lambda: (os.rename(path, tmp_path / "other"), path.symlink_to(tmp_path / "other")),
        lambda: os.truncate(path, 0),
    ):
        path.write_bytes(b"bytes")
        file = LocalFile(str(path))
        assert file.reopen()
        assert open_below(tmp_path) == 1
        file.close()
        with pytest.raises(StorageError, match="closed"):
            file.read(0, 5)
        assert file.reopen()
        assert file.read(0, 5) == b"bytes"
        file.close()
        change()
        assert not file.reopen()
        assert not open_below(tmp_path)
        if path.is_symlink():
            path.unlink()
