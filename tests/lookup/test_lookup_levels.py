"""LookupLevels over real data files, against a dict: nearest level first, current deletion vectors, lazy and
bounded."""

from __future__ import annotations

import logging
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import InvalidInput, InvalidOption
from paimon_spark.lookup import (
    LookupDirectory,
    LookupFileCache,
    ValueProcessor,
    lookup_options,
    value_processor,
)
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.lookup_file_cache import process_cache
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.options import Option, Options
from tests.lookup.levels import Levels, cache_in, columns_of, names_of, random_levels, schema_of


@pytest.mark.parametrize("kind", ["hash", "sort"])
@pytest.mark.parametrize("processor", [(True, True), (True, False), (False, True), (False, False)])
def test_lookups_agree_with_a_dict(kind: str, processor: tuple[bool, bool], tmp_path: Path) -> None:
    fields, position = processor
    schema = schema_of(kind)
    levels = random_levels(tmp_path, schema, 5)
    found_by = ValueProcessor(schema.fields if fields else None, position)
    opened = levels.open(found_by, cache_in(tmp_path / "cache"))
    keys = [(k, n) for k in range(-32, 62) for n in ("", "a", "a\x00", "long name " * 3, "b")]
    for start in (0, 1, 2, 3, 4):
        hits = opened.lookup_many(columns_of(keys), start)
        expected = [levels.expected(key, start, {}) for key in keys]
        assert hits.found.tolist() == [answer is not None for answer in expected]
        names = names_of(hits)
        assert names == [answer and answer[0] for answer in expected]
        present = [answer for answer in expected if answer is not None]
        if position:
            assert hits.positions is not None
            assert hits.positions[hits.found].tolist() == [answer[1] for answer in present]
            assert set(hits.positions[~hits.found].tolist()) <= {-1}
        if fields:
            assert hits.rows is not None
            assert [tuple(row.values()) for row in hits.rows.values.to_pylist()] == [answer[2] for answer in present]
            sequences = [levels.sequences[name] + at for name, at, _ in present]
            assert hits.rows.sequence is not None
            assert hits.rows.sequence.tolist() == sequences
        for i in range(0, len(keys), 40):
            assert opened.lookup(keys[i], start).found.tolist() == [expected[i] is not None]


def test_files_of_level_0_with_equal_sequence_numbers_are_asked_in_the_order_of_java(tmp_path: Path) -> None:
    """By the greatest number, greater first; then by the least number, the time and the name, lesser first."""
    levels = Levels(tmp_path, schema_of())
    numbers = [(9, 9, 9, "d"), (8, 1, 7, "z"), (8, 2, 1, "y"), (8, 2, 2, "a"), (8, 2, 2, "b"), (7, 0, 0, "c")]
    ages = [(most, least, time, f"{name}.parquet") for most, least, time, name in numbers]
    in_order = [
        levels.add(0, [(1, "a", 1.0, None)], name)._replace(max_sequence=most, min_sequence=least, creation_millis=time)
        for most, least, time, name in ages
    ]
    for gone in range(len(ages)):
        levels.files = random.Random(gone).sample(in_order[gone:], len(ages) - gone)
        hits = levels.open(ValueProcessor(None, True), cache_in(tmp_path / "cache")).lookup((1, "a"), 0)
        assert names_of(hits) == [ages[gone][3]]


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_the_deletion_vector_of_now_decides(kind: str, tmp_path: Path) -> None:
    """Marks that are made while a lookup file is cached count at once, and uncover the version below."""
    schema = schema_of(kind)
    levels = Levels(tmp_path, schema)
    below = levels.add(3, [(1, "a", 1.0, "old"), (2, "a", 2.0, "old")])
    above = levels.add(2, [(1, "a", 1.5, "new"), (3, "a", 3.0, "new")])
    opened = levels.open(ValueProcessor(schema.fields, True), cache_in(tmp_path / "cache"))
    vectors: dict[str, DeletionVector] = {}
    keys = columns_of([(1, "a"), (2, "a"), (3, "a")])

    def files() -> list[str | None]:
        hits = opened.lookup_many(keys, 1, vectors.get)
        return names_of(hits)

    assert files() == [above.name, below.name, above.name]
    vectors[above.name] = DeletionVector.of([0])
    assert files() == [below.name, below.name, above.name]
    vectors[below.name] = DeletionVector.of([0, 1])
    vectors[above.name] = DeletionVector.of([0, 1])
    assert files() == [None, None, None]
    # The same keys, inserted again: the new file is found, whatever its predecessor's vector said.
    again = levels.add(1, [(1, "a", 9.0, "again")])
    opened.update(levels.files)
    assert files() == [again.name, None, None]
    with pytest.raises(InvalidInput, match="positions"):
        levels.open(ValueProcessor(schema.fields, False), cache_in(tmp_path / "cache")).lookup_many(
            keys, 1, vectors.get
        )


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_random_vectors_agree_with_a_dict(kind: str, tmp_path: Path) -> None:
    schema = schema_of(kind)
    levels = random_levels(tmp_path, schema, 11)
    opened = levels.open(ValueProcessor(None, True), cache_in(tmp_path / "cache"))
    keys = [(k, n) for k in range(-32, 62) for n in ("", "a", "a\x00")]
    rng = random.Random(1)
    deleted: dict[str, set[int]] = {}
    for _ in range(5):
        for file in levels.files:
            deleted.setdefault(file.name, set()).update(rng.sample(range(file.row_count), file.row_count // 6))
        hits = opened.lookup_many(columns_of(keys), 1, lambda name: DeletionVector.of(deleted[name]))
        expected = [levels.expected(key, 1, deleted) for key in keys]
        names = names_of(hits)
        assert names == [answer and answer[0] for answer in expected]
        assert hits.positions is not None
        assert hits.positions[hits.found].tolist() == [answer[1] for answer in expected if answer]


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_r12_a_row_deleted_and_inserted_again_is_found_where_it_is_now(kind: str, tmp_path: Path) -> None:
    """The identical row is deleted and inserted again many times, at a level above or below its dead copies, while all
    lookup files stay open."""
    schema = schema_of(kind)
    levels = Levels(tmp_path, schema)
    opened = levels.open(ValueProcessor(schema.fields, True), cache_in(tmp_path / "cache"))
    rng = random.Random(12)
    rows = [(k, "a", float(k), "same") for k in range(8)]
    vectors: dict[str, list[int]] = {}
    live: dict[int, tuple[str, int]] = {}

    def check() -> None:
        now = {name: DeletionVector.of(positions) for name, positions in vectors.items()}
        hits = opened.lookup_many(columns_of([(k, "a") for k in range(8)]), 1, now.get)
        assert hits.positions is not None
        assert hits.rows is not None
        found = {k: (name, hits.positions[k]) for k, name in enumerate(names_of(hits)) if name is not None}
        assert found == live
        assert [tuple(row.values()) for row in hits.rows.values.to_pylist()] == [rows[k] for k in sorted(live)]

    for level in rng.sample(range(1, 100), 30):
        again = sorted(rng.sample(rows, 3))
        for key in [row[0] for row in again if row[0] in live]:
            file, position = live.pop(key)
            vectors.setdefault(file, []).append(position)
        check()
        name = levels.add(level, again).name
        live.update({row[0]: (name, position) for position, row in enumerate(again)})
        opened.update(levels.files)
        check()
    assert sum(map(len, vectors.values())) > 30


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_a_bound_of_one_byte_changes_no_answer_and_leaves_no_file(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = schema_of(kind)
    levels = random_levels(tmp_path, schema, 3)
    cache = cache_in(tmp_path / "cache", max_bytes=1)
    opened = levels.open(ValueProcessor(schema.fields, True), cache)
    keys = [(k, n) for k in range(-32, 62) for n in ("", "a")]
    with caplog.at_level(logging.INFO, "paimon_spark.lookup"):
        for _ in range(2):
            hits = opened.lookup_many(columns_of(keys), 0)
            expected = [levels.expected(key, 0, {}) for key in keys]
            assert hits.found.tolist() == [answer is not None for answer in expected]
            assert cache.names == []
            assert cache.directory.files() == []
    assert all("(size)" in record.message for record in caplog.records)
    assert len(caplog.records) == 2 * len(levels.files)


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_eviction_while_threads_look_up(kind: str, tmp_path: Path) -> None:
    schema = schema_of(kind)
    levels = random_levels(tmp_path, schema, 8)
    cache = cache_in(tmp_path / "cache", max_bytes=20_000, memory=10_000)
    opened = levels.open(ValueProcessor(None, True), cache)
    keys = [(k, n) for k in range(-32, 62) for n in ("", "a")]
    expected = [levels.expected(key, 0, {}) for key in keys]
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(6):
            hits = opened.lookup_many(columns_of(keys), 0)
            names = names_of(hits)
            if names != [answer and answer[0] for answer in expected]:
                wrong.append(names)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(file.size for file in cache.directory.files()) <= 20_000


def test_files_unused_for_too_long_are_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    (tmp_path / "cache").mkdir()
    directory = LookupDirectory(str(tmp_path / "cache"))
    cache = LookupFileCache(directory, LookupMemory(1 << 20), None, 60.0, clock=lambda: now[0])
    schema = schema_of()
    levels = Levels(tmp_path, schema)
    levels.add(2, [(1, "a", 1.0, None)])
    levels.add(3, [(2, "a", 1.0, None)])
    opened = levels.open(ValueProcessor(None, True), cache)
    opened.lookup((1, "a"), 1)
    first = cache.names
    now[0] = 59.0
    opened.lookup((2, "a"), 3)
    assert len(cache.names) == 2
    now[0] = 61.0
    with caplog.at_level(logging.INFO, "paimon_spark.lookup"):
        opened.lookup((2, "a"), 3)
    assert len(cache.names) == 1
    assert [file.name for file in directory.files()] == cache.names
    assert first[0] in caplog.text
    assert "(age)" in caplog.text
    assert opened.lookup((1, "a"), 1).found.tolist() == [True]


def test_old_files_of_others_are_looked_for_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not whenever a file is opened: to list many files takes longer than that."""
    listed = []
    files = LookupDirectory.files
    monkeypatch.setattr(LookupDirectory, "files", lambda directory: listed.append(directory) or files(directory))
    levels, now = Levels(tmp_path, schema_of()), [0.0]
    for level in range(1, 9):
        levels.add(level, [(level, "a", 1.0, None)])
    earlier = levels.open(ValueProcessor(None, False), cache_in(tmp_path / "cache"))
    assert earlier.lookup((8, "a"), 8).found.all()
    directory = LookupDirectory(str(tmp_path / "cache"))
    cache = LookupFileCache(directory, LookupMemory(1 << 20), None, 60.0, clock=lambda: now[0])
    opened = levels.open(ValueProcessor(None, True), cache)
    listed.clear()
    for level in range(1, 8):
        assert opened.lookup((level, "a"), level).found.all()
    assert len(listed) == 1
    (old,) = directory.names(earlier._source(levels.files[-1]).name)
    os.utime(Path(directory.path, old), (1, 1))
    now[0] = 1.0
    assert opened.lookup((8, "a"), 8).found.all()
    assert len(listed) == 2
    assert len(directory.names(earlier._prefix)) == 8
    assert old not in directory.names(earlier._prefix)


def test_files_leave_with_their_data_file_and_their_owner(tmp_path: Path) -> None:
    schema = schema_of()
    levels = Levels(tmp_path, schema)
    for level in (1, 2, 3):
        levels.add(level, [(level, "a", 1.0, None)])
    cache = cache_in(tmp_path / "cache")
    opened = levels.open(ValueProcessor(None, True), cache)
    keys = columns_of([(1, "a"), (2, "a"), (3, "a")])
    opened.lookup_many(keys, 1)
    assert len(cache.directory.files()) == 3
    moved = [levels.files[1].at_level(5), levels.files[2]]
    opened.update(moved)
    assert len(cache.directory.files()) == 2
    hits = opened.lookup_many(keys, 1)
    assert hits.found.tolist() == [False, True, True]
    assert sorted(file.level for file in hits.files) == [3, 5]
    other = Levels(tmp_path / "other", schema)
    other.add(1, [(7, "z", 0.0, None)])
    beside = other.open(ValueProcessor(None, True), cache)
    beside.lookup((7, "z"), 1)
    opened.close(keep=True)
    assert len(cache.names) == 1
    assert len(cache.directory.files()) == 3
    opened.lookup_many(keys, 1)
    opened.close()
    assert len(cache.directory.files()) == 1
    beside.close()
    assert cache.directory.files() == []


def test_a_damaged_published_file_is_built_again(tmp_path: Path) -> None:
    for kind in ("hash", "sort"):
        schema = schema_of(kind)
        levels = Levels(tmp_path / kind, schema)
        levels.add(2, [(k, "a", 1.0, None) for k in range(500)])
        opened = levels.open(ValueProcessor(None, True), cache_in(tmp_path / "cache"))
        assert opened.lookup((3, "a"), 1).found.all()
        opened.close(keep=True)
        (file,) = cache_in(tmp_path / "cache").directory.files()
        path = Path(cache_in(tmp_path / "cache").directory.path, file.name, "data.context")
        path.write_bytes(path.read_bytes()[:-1])
        opened = levels.open(ValueProcessor(None, True), cache_in(tmp_path / "cache"))
        assert opened.lookup((3, "a"), 1).found.all()
        opened.close()


def test_a_file_that_another_process_dropped_is_built_again(tmp_path: Path) -> None:
    schema = schema_of()
    levels = Levels(tmp_path, schema)
    levels.add(2, [(1, "a", 1.0, None)])
    cache = cache_in(tmp_path / "cache")
    opened = levels.open(ValueProcessor(None, True), cache)
    opened.lookup((1, "a"), 1)
    LookupDirectory(str(tmp_path / "cache")).drop(cache.names[0])
    assert opened.lookup((1, "a"), 1).found.all()
    assert len(cache.directory.files()) == 1


def test_a_missing_data_file_leaves_no_lookup_file(tmp_path: Path) -> None:
    from paimon_spark.errors import NotFound

    schema = schema_of()
    levels = Levels(tmp_path, schema)
    file = levels.add(2, [(1, "a", 1.0, None)])
    os.unlink(tmp_path / "bucket-0" / file.name)
    cache = cache_in(tmp_path / "cache")
    with pytest.raises(NotFound, match="data file"):
        levels.open(ValueProcessor(None, True), cache).lookup((1, "a"), 1)
    assert cache.directory.files() == []


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"merge__engine": "first-row"}, "empty"),
        ({"deletion__vectors_enabled": "true"}, "position"),
        ({"deletion__vectors_enabled": "true", "changelog__producer": "lookup"}, "position-and-value"),
        ({"deletion__vectors_enabled": "true", "sequence_field": "v"}, "position-and-value"),
        ({"deletion__vectors_enabled": "true", "merge__engine": "partial-update"}, "position-and-value"),
        ({"merge__engine": "partial-update"}, "value"),
        ({}, "value"),
    ],
)
def test_what_a_table_needs_to_remember(options: dict[str, str], name: str) -> None:
    assert value_processor(schema_of(**options)).name == name


@pytest.mark.parametrize(
    ("option", "name", "default", "wrong"),
    [
        (lookup_options.LOCAL_FILE_TYPE, "lookup.local-file-type", "sort", "tree"),
        (lookup_options.HASH_LOAD_FACTOR, "lookup.hash-load-factor", 0.75, "1.5"),
        (lookup_options.CACHE_FILE_RETENTION, "lookup.cache-file-retention", 3_600_000.0, "soon"),
        (lookup_options.CACHE_MAX_DISK_SIZE, "lookup.cache-max-disk-size", None, "much"),
        (lookup_options.CACHE_MAX_MEMORY_SIZE, "lookup.cache-max-memory-size", 2**28, "much"),
        (lookup_options.CACHE_HIGH_PRIORITY_RATIO, "lookup.cache.high-priority-pool-ratio", 0.25, "half"),
        (lookup_options.CACHE_SPILL_COMPRESSION, "lookup.cache-spill-compression", "zstd", "gzip"),
        (lookup_options.SPILL_ZSTD_LEVEL, "spill-compression.zstd-level", 1, "30"),
        (lookup_options.BLOOM_FILTER_ENABLED, "lookup.cache.bloom.filter.enabled", True, "maybe"),
        (lookup_options.BLOOM_FILTER_FPP, "lookup.cache.bloom.filter.fpp", 0.05, "0"),
        (lookup_options.CACHE_PAGE_SIZE, "cache-page-size", 65536, "0 b"),
    ],
)
def test_options_have_paimons_names_and_defaults(option: Option[Any], name: str, default: Any, wrong: str) -> None:
    assert (option.key, Options({}).get_option(option)) == (name, default)
    with pytest.raises(InvalidOption, match=name):
        Options({name: wrong}).get_option(option)


def test_a_cache_has_the_bounds_of_its_options(tmp_path: Path) -> None:
    cache = process_cache(Options({"lookup.cache-max-memory-size": "1 mb"}), str(tmp_path))
    assert cache is process_cache(Options({"lookup.cache-max-memory-size": "1024 kb"}), str(tmp_path))
    assert cache is not process_cache(Options({"lookup.cache-max-disk-size": "1 gb"}), str(tmp_path))
    assert cache.memory.priority.budget.limit == 256 * 1024
    for key, value in (
        ("lookup.cache.high-priority-pool-ratio", "1.5"),
        ("lookup.cache.high-priority-pool-ratio", "-0.1"),
        ("lookup.cache.high-priority-pool-ratio", "1"),
        ("lookup.cache-max-memory-size", "much"),
        ("lookup.cache-file-retention", "soon"),
    ):
        with pytest.raises(InvalidOption, match=key):
            process_cache(Options({key: value}), str(tmp_path))
