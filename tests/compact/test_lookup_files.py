"""Compactions that look older versions up: keys that go and come again, columns that nest, local disks that fill up."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.compact.bucket_compaction import CompactionResult, compact_bucket
from paimon_spark.compact.compaction import commit_compaction
from paimon_spark.errors import StorageError
from paimon_spark.lookup import LookupDirectory, LookupFileCache
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.table import PaimonTable
from tests.compact.tables import FILLER, content, deleted, files_on_disk, filler, new_table, raw_content, rows, state_of
from tests.faults.fault_disk import FaultDisk
from tests.faults.fault_storage import AFTER, BEFORE, TORN
from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows
from tests.sizes import seeded, sized


def local_cache(path: Path) -> LookupFileCache:
    path.mkdir(exist_ok=True)
    return LookupFileCache(LookupDirectory(str(path)), LookupMemory(1 << 20))


def compact(table: PaimonTable, cache: LookupFileCache) -> CompactionResult | None:
    return compact_bucket(table.metadata, table.table_schema, state_of(table), cache=cache)


def compact_and_commit(table: PaimonTable, cache: LookupFileCache) -> None:
    result = compact(table, cache)
    assert result is not None
    commit_compaction(table.metadata, table.table_schema, [result])


@pytest.mark.parametrize("kind", ["hash", "sort"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_r12_a_row_deleted_and_inserted_again_is_there_once(tmp_path: Path, kind: str, engine: str) -> None:
    """The lookup file of the oldest rows is built once and asked through every generation of their vector."""
    ignore = {} if engine == "deduplicate" else {"partial_update__remove_record_on_delete": "true"}
    table = new_table(tmp_path / "t", lookup__local_file_type=kind, merge_engine=engine, **ignore)
    cache = local_cache(tmp_path / "local")
    rows_of: dict[int, tuple[Any, ...]] = {k: (k, k, "same") for k in range(12)}
    table.append(pa.concat_tables([rows(*rows_of.values()), filler()]))
    table.compact()
    (oldest,) = [entry.file.name for entry in state_of(table).entries]
    chance = seeded(f"rows that come again, {kind}, {engine}")
    model, built = dict(rows_of), set()
    gone: set[int] = set()
    for _ in range(sized(6, 60)):
        for kinds in ("-D", "+I"):
            candidates = [k for k in rows_of if (k in model) == (kinds == "-D")]
            chosen = candidates if kinds == "+I" else chance.sample(candidates, 3)
            table.append(rows(*((*rows_of[k], kinds) for k in chosen)))
            compact_and_commit(table, cache)
            gone.update(chosen)
            for k in chosen:
                model.pop(k) if kinds == "-D" else model.update({k: rows_of[k]})
            assert raw_content(table) == content(table) == [model[k] for k in sorted(model)]
            assert table.check() == []
            (file,) = [f.name for f in cache.directory.files() if oldest in f.name]
            built.add(os.stat(os.path.join(cache.directory.path, file, "data")).st_ino)
            assert deleted(table)[5] == sorted(gone)
    assert len(built) == 1
    assert len(gone) > 3


NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
        pa.field("counts", pa.map_(pa.string(), pa.field("value", pa.int64()))),
        pa.field(
            "place",
            pa.struct(
                [
                    pa.field("city", pa.string()),
                    pa.field("trips", pa.list_(pa.field("element", pa.struct([pa.field("to", pa.string())])))),
                ]
            ),
        ),
    ]
)


def nested_rows(chance: random.Random, keys: list[int]) -> pa.Table:
    def row(key: int) -> dict[str, Any]:
        return {
            "id": key,
            "tags": chance.choice([None, [], [f"tag {key}", None, "a"]]),
            "counts": chance.choice([None, [], [("k", key), ("longer key", None)]]),
            "place": chance.choice(
                [None, {"city": None, "trips": []}, {"city": f"{key}", "trips": [{"to": "x"}, None]}]
            ),
        }

    return pa.Table.from_pylist([row(key) for key in keys], NESTED)


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_columns_that_nest_are_compacted_with_lookups_as_java_reads_them(
    tmp_path: Path, kind: str, java: JavaPaimon
) -> None:
    options = {"merge-engine": "partial-update", "bucket": "1", "deletion-vectors.enabled": "true"}
    paths = [str(tmp_path / name) for name in ("compacted", "never")]
    tables = [PaimonTable.create(path, NESTED, ["id"], options=options) for path in paths]
    compacted, never = tables
    cache = local_cache(tmp_path / "local")
    chance = seeded(f"nested columns, {kind}")
    feeds = [list(range(1000)), *([*chance.sample(range(1000), 5), 1000 + i] for i in range(4))]
    for keys in feeds:
        feed = nested_rows(chance, sorted(keys))
        for table in tables:
            table.append(feed)
        compact_and_commit(compacted, cache)
    assert len(cache.directory.files()) > 0
    assert sum(map(len, deleted(compacted).values())) > 5
    assert compacted.check() == []
    merged = never.read(options={"deletion-vectors.merge-on-read": "true"})
    assert merged.num_rows == 1004
    assert_same_rows(compacted.read(), merged)
    assert_same_rows(java.read(paths[0]), merged)


@pytest.mark.parametrize("kind", ["hash", "sort"])
@pytest.mark.parametrize(("fault", "lasting"), [(BEFORE, False), (BEFORE, True), (AFTER, False), (TORN, False)])
def test_r16_a_full_local_disk_ends_a_compaction_and_leaves_the_table_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fault: str, lasting: bool
) -> None:
    """The disk is full at any one call of the lookups, or from there on. Then there is room again."""
    table = new_table(tmp_path / "t", lookup__local_file_type=kind)
    table.append(pa.concat_tables([rows(*((k, k, "old") for k in range(20))), filler(1500)]))
    table.compact()
    table.append(rows(*((k, -k, "new") for k in range(0, 20, 4)), (FILLER, 0, "new")))
    disk, before = FaultDisk(), files_on_disk(table)
    disk.install_under_lookups(monkeypatch)
    result = compact(table, local_cache(tmp_path / "plain"))
    assert result is not None
    result.discard(table.metadata, table.table_schema)
    log, failed = disk.log, 0
    numbers = [n for n, call in enumerate(log) if fault != TORN or call == "writev"]
    for number in numbers:
        disk.arm(number, fault, lasting)
        problem = None
        try:
            result = compact(table, local_cache(tmp_path / str(number)))
        except StorageError as ended:
            problem, result = ended, None
        disk.arm(-1)
        failed += problem is not None
        left = [path.name for path in (tmp_path / str(number)).glob("*/*")]
        context = f"call {number} of {len(log)}, {log[number]}: {problem}, {left}"
        assert "lookup" in str(problem or "lookup"), context
        assert not [name for name in left if name.startswith((".build", ".drop"))], context
        if result is not None:
            result.discard(table.metadata, table.table_schema)
        assert files_on_disk(table) == before, context
        cache = local_cache(tmp_path / str(number))
        result = compact(table, cache)
        assert result is not None, context
        assert len(cache.directory.files()) == 1
        result.discard(table.metadata, table.table_schema)
        assert files_on_disk(table) == before, context
    print(f"{kind}, {fault}, lasting {lasting}: {len(numbers)} of {len(log)} calls failed, {failed} compactions ended")
    assert failed >= len(numbers) // 2
    compact_and_commit(table, cache)
    assert (
        content(table) == raw_content(table) == [(k, k if k % 4 else -k, "old" if k % 4 else "new") for k in range(20)]
    )
    assert table.check() == []
