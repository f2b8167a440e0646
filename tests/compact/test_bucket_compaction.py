"""Compaction of one bucket before it is committed: what it reports, and which files it leaves on disk."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.compact.bucket_compaction import CompactionResult, compact_bucket, is_due
from paimon_spark.compact.bucket_state import bucket_states
from paimon_spark.compact.compaction import commit_compaction
from paimon_spark.errors import CorruptFile, InvalidInput
from paimon_spark.lookup import LookupDirectory, LookupFileCache
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.table import PaimonTable
from tests.compact.tables import (
    content,
    deleted,
    files_in_snapshot,
    files_on_disk,
    filler,
    new_table,
    raw_content,
    rows,
    shape,
    state_of,
)


def _compact(table: PaimonTable, full: bool = False, cache: LookupFileCache | None = None) -> CompactionResult | None:
    return compact_bucket(table.metadata, table.table_schema, state_of(table), full=full, cache=cache)


def _names(result: CompactionResult) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(level, rows) of what goes and of what comes."""
    return (
        sorted((e.file.level, e.file.row_count) for e in result.before),
        sorted((e.file.level, e.file.row_count) for e in result.after),
    )


def test_a_file_that_moves_up_keeps_its_name(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(filler())
    before = files_on_disk(table)
    result = _compact(table)
    assert result is not None
    assert _names(result) == ([(0, 3000)], [(5, 3000)])
    assert result.before[0].file.name == result.after[0].file.name
    assert result.after[0].file == result.before[0].file.at_level(5)
    assert result.vectors is None
    assert files_on_disk(table) == before
    result.discard(table.metadata, table.table_schema)
    assert files_on_disk(table) == before


def test_results_travel_and_nothing_is_visible_before_the_commit(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(pa.concat_tables([rows((1, 1, "a")), filler()]))
    table.compact()
    table.append(rows((1, 2, "b"), (2, None, None, "-D")))
    state = state_of(table)
    assert pickle.loads(pickle.dumps(state)) == state
    result = _compact(table)
    assert result is not None
    assert pickle.loads(pickle.dumps(result)) == result
    assert _names(result) == ([(0, 2)], [(4, 1)])
    assert result.vectors is not None
    assert deleted(table) == {}
    assert len(table.snapshots()) == 3
    commit_compaction(table.metadata, table.table_schema, [pickle.loads(pickle.dumps(result))])
    assert deleted(table) == {5: [0]}
    assert raw_content(table) == [(1, 2, "b")]


def test_what_a_later_round_replaces_never_reaches_the_table(tmp_path: Path) -> None:
    """Two level-0 files make a file of level 4 by their number; that joins level 5 in the next round."""
    options = {
        "compaction.max-size-amplification-percent": "1000000",
        "compaction.incremental-size-threshold": "1 b",
        "num-sorted-run.compaction-trigger": "100",
        "num-levels": "6",
    }
    table = new_table(tmp_path / "t", **{k.replace(".", "__").replace("-", "_"): v for k, v in options.items()})
    table.append(filler())
    table.compact()
    lazy = PaimonTable.open(table.path, {"compaction.incremental-size-threshold": "1 gb"})
    for i in range(3):
        table.append(rows((i, i, "x"), (9, i, "y")))
    result = _compact(lazy)
    assert result is not None
    assert _names(result) == ([(0, 2)] * 3, [(4, 4)])
    result.discard(table.metadata, table.table_schema)
    result = _compact(table)
    assert result is not None
    assert _names(result) == ([(0, 2)] * 3 + [(5, 3000)], [(5, 3004)])
    commit_compaction(table.metadata, table.table_schema, [result])
    old = {e.file.name for e in result.before}
    assert files_on_disk(table) - old == files_in_snapshot(table)
    assert table.check() == []


def test_a_compaction_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """The first section is fine and is written; in the last one a retract has no rule."""
    table = new_table(tmp_path / "t", merge_engine="partial-update", target_file_size="1 b", parquet__block__size="1")
    table.append(filler())
    table.append(filler())
    table.append(rows((2_000_000, 1, "x")))
    table.append(rows((2_000_000, None, None, "-D")))
    before = files_on_disk(table)
    with pytest.raises(InvalidInput, match="'ignore-delete'"):
        _compact(table)
    assert files_on_disk(table) == before
    with pytest.raises(InvalidInput, match="'ignore-delete'"):
        table.compact(full=True)
    assert files_on_disk(table) == before
    assert len(table.snapshots()) == 4


def test_a_damaged_input_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(filler())
    table.append(filler())
    before = files_on_disk(table)
    damaged = Path(table.files()["file_path"].to_pylist()[1])
    content = bytearray(damaged.read_bytes())
    content[len(content) // 3] ^= 0xFF
    damaged.write_bytes(content)
    with pytest.raises(CorruptFile, match=damaged.name):
        _compact(table)
    assert files_on_disk(table) == before


def test_full_compaction_rewrites_each_file_that_has_deleted_rows(tmp_path: Path) -> None:
    table = new_table(
        tmp_path / "t", target_file_size="1 b", parquet__block__size="1", compaction__small_file_ratio="0"
    )
    table.append(filler())
    table.compact(full=True)
    assert shape(table) == [(5, 1000)] * 3
    table.append(rows((1_001_500, None, None, "-D")))
    table.compact()
    assert deleted(table) == {5: [500]}
    assert is_due(table.table_schema, state_of(table), full=True)
    assert not is_due(table.table_schema, state_of(table))
    result = _compact(table, full=True)
    assert result is not None
    assert _names(result) == ([(5, 1000)], [(5, 999)])
    commit_compaction(table.metadata, table.table_schema, [result])
    assert shape(table) == [(5, 999), (5, 1000), (5, 1000)]
    assert deleted(table) == {}
    assert not is_due(table.table_schema, state_of(table), full=True)
    assert table.check() == []


@pytest.mark.parametrize("kind", ["hash", "sort"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_few_keys_are_looked_up_and_many_are_found_by_a_scan(tmp_path: Path, kind: str, engine: str) -> None:
    table = new_table(tmp_path / "t", lookup__local_file_type=kind, merge_engine=engine)
    (tmp_path / "local").mkdir()
    cache = LookupFileCache(LookupDirectory(str(tmp_path / "local")), LookupMemory(1 << 20))
    table.append(pa.concat_tables([rows(*((k, k, "old") for k in range(100))), filler()]))
    table.compact()
    for keys, looked_up in ((range(0, 100, 2), False), (range(1, 20, 7), True), (range(2, 9, 3), True)):
        table.append(rows(*((k, -k, None) for k in keys)))
        result = _compact(table, cache=cache)
        assert result is not None
        commit_compaction(table.metadata, table.table_schema, [result])
        known = [file.name for file in cache.directory.files()]
        assert bool(known) == looked_up
        assert all(any(name in file for name in files_in_snapshot(table)) for file in known)
        assert cache.names == []
    new = {*range(0, 100, 2), *range(1, 20, 7), *range(2, 9, 3)}
    text = None if engine == "deduplicate" else "old"
    assert raw_content(table) == [(k, -k, text) if k in new else (k, k, "old") for k in range(100)]
    assert content(table) == raw_content(table)
    assert sum(len(positions) for positions in deleted(table).values()) >= 52
    assert table.check() == []


def test_a_lookup_that_fails_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    (tmp_path / "local").mkdir()
    cache = LookupFileCache(LookupDirectory(str(tmp_path / "local")), LookupMemory(1 << 20))
    table.append(filler())
    table.compact()
    table.append(rows((1_000_001, 1, "x")))
    table.append(rows((1_000_001, 2, "x")))
    before = files_on_disk(table)
    (old,) = [entry.file.name for entry in state_of(table).entries if entry.file.level == 5]
    (path,) = Path(table.path).rglob(old)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptFile, match=old):
        _compact(table, cache=cache)
    assert files_on_disk(table) == before
    assert cache.directory.files() == []


def test_states_leave_out_what_is_not_wanted(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", bucket="3")
    table.append(filler())
    snapshot = table.snapshot()
    assert snapshot is not None
    states = bucket_states(table.metadata, snapshot, lambda partition, bucket: bucket != 1)
    assert sorted(bucket for _, bucket in states) == [0, 2]
    assert all(entry.bucket == key[1] for key, state in states.items() for entry in state.entries)


def test_a_result_fits_as_long_as_its_bucket_is_as_it_was(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(filler())
    result = _compact(table)
    assert result is not None
    assert not result.fits(None)
    table.append(rows((1, 1, "a")))
    assert result.fits(state_of(table))
    table.overwrite(rows((1, 1, "a")))
    assert not result.fits(state_of(table))
