"""Compaction of whole tables: what is in the snapshot, what is marked, who wins, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.compact.bucket_compaction import CompactionResult, compact_bucket
from paimon_spark.compact.compaction import commit_compaction, compact_table
from paimon_spark.errors import CommitConflict, InvalidInput, InvalidOption, UnsupportedFeature
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
from tests.processes import exit_codes, fork_server


def test_new_rows_replace_old_ones_by_position(tmp_path: Path) -> None:
    """Deduplicate: key 1 gets a new value, key 2 is deleted, key 3 is new."""
    table = new_table(tmp_path / "t")
    table.append(pa.concat_tables([rows((1, 1, "a"), (2, 2, "b"), (4, 4, "d")), filler()]))
    first = table.compact()
    assert first is not None
    assert (first.commit_kind, first.total_record_count) == ("COMPACT", 3003)
    assert shape(table) == [(5, 3003)]
    assert deleted(table) == {}
    table.append(rows((1, 9, "x"), (3, 3, "c"), (2, None, None, "-D")))
    table.compact()
    assert shape(table) == [(4, 2), (5, 3003)]
    assert deleted(table) == {5: [0, 1]}
    assert content(table) == raw_content(table) == [(1, 9, "x"), (3, 3, "c"), (4, 4, "d")]
    table.append(rows((1, 10, "y"), (4, None, None, "-D")))
    table.compact()
    assert deleted(table)[5] == [0, 1, 2]
    assert raw_content(table) == [(1, 10, "y"), (3, 3, "c")]
    assert table.check() == []
    table.compact(full=True)
    assert (shape(table), deleted(table)) == ([(5, 3002)], {})
    assert raw_content(table) == [(1, 10, "y"), (3, 3, "c")]
    assert table.compact(full=True) is None
    assert table.check() == []


def test_older_values_take_part_where_they_count(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", merge_engine="partial-update")
    table.append(pa.concat_tables([rows((1, 1, "x"), (2, 2, "y"), (3, 3, "z")), filler()]))
    table.compact()
    table.append(rows((2, None, "w"), (3, 7, None), (4, 4, "u")))
    table.compact()
    assert (shape(table), deleted(table)) == ([(4, 3), (5, 3003)], {5: [1, 2]})
    assert raw_content(table) == [(1, 1, "x"), (2, 2, "w"), (3, 7, "z"), (4, 4, "u")]
    assert table.check() == []


def test_retracts_from_before_they_were_ignored_delete_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(pa.concat_tables([rows((1, 1, "a"), (2, 2, "b"), (3, 3, "c")), filler()]))
    table.compact()
    table.append(rows((1, None, None, "-D"), (2, 9, "x"), (4, None, None, "-D")))
    ignoring = PaimonTable.open(table.path, {"ignore-delete": "true"})
    before = content(ignoring)
    assert before == [(1, 1, "a"), (2, 9, "x"), (3, 3, "c")]
    ignoring.compact()
    assert content(ignoring) == raw_content(ignoring) == before
    assert ignoring.check() == []


def test_an_older_row_that_wins_is_written_anew(tmp_path: Path) -> None:
    """sequence.field: the row that comes later is older, so the stored one stays, at another place."""
    table = new_table(tmp_path / "t", sequence__field="a")
    table.append(pa.concat_tables([rows((1, 5, "stored"), (2, 5, "stored")), filler()]))
    table.compact()
    table.append(rows((1, 4, "late"), (2, 5, "newer")))
    table.compact()
    assert (shape(table), deleted(table)) == ([(4, 2), (5, 3002)], {5: [0, 1]})
    assert raw_content(table) == [(1, 5, "stored"), (2, 5, "newer")]
    table.append(rows((1, None, "null is oldest")))
    table.compact()
    assert raw_content(table) == [(1, 5, "stored"), (2, 5, "newer")]
    assert table.check() == []


def test_a_record_of_the_inputs_spares_the_lookup(tmp_path: Path) -> None:
    """Level 4 holds what level 5 had; merged with it, not with level 5 again."""
    table = new_table(tmp_path / "t", merge_engine="partial-update")
    table.append(rows(*((k, k, "base") for k in range(2000))))
    table.compact()
    table.append(rows((7, None, "once")))
    table.compact()
    table.append(rows((7, 70, None), (8, None, "once")))
    table.compact()
    assert deleted(table)[5] == [7, 8]
    assert {k: (a, b) for k, a, b in raw_content(table) if k in (7, 8)} == {7: (70, "once"), 8: (8, "once")}
    assert table.check() == []


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_universal_compaction_without_and_with_vectors(tmp_path: Path, vectors: str) -> None:
    table = new_table(tmp_path / "t", deletion_vectors__enabled=vectors)
    for i in range(6):
        table.append(rows((i, i, "x"), (100, i, str(i)), (50 + i, None, None, "-D")))
    assert table.compact() is not None
    assert {level for level, _ in shape(table)} == {5}
    assert content(table) == [*((i, i, "x") for i in range(6)), (100, 5, "5")]
    assert table.files()["delete_row_count"].to_pylist() == [0]
    assert table.check() == []
    assert table.compact() is None
    table.append(rows((100, 6, "6"), (0, None, None, "-D")))
    assert (table.compact() is None) == (vectors == "false")
    assert content(table)[-1] == (100, 6, "6")
    assert len(content(table)) == 6


def test_nothing_to_do_is_no_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    assert table.compact() is None
    table.append(rows((1, 1, "a")))
    assert table.compact() is not None
    assert table.compact() is None
    assert table.compact(full=True) is None
    assert len(table.snapshots()) == 2


def test_write_only_tables_are_compacted_on_demand(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", write_only="true")
    table.append(rows((1, 1, "a")))
    assert table.compact() is not None
    assert shape(table) == [(5, 1)]


def test_a_gentle_table_is_compacted_on_demand_and_left_alone_otherwise(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", lookup_compact="gentle")
    table.append(filler())
    assert compact_table(table.metadata, table.table_schema, patient=True) is None
    assert table.compact() is not None
    assert shape(table) == [(5, 3000)]
    for i in range(3):
        table.append(rows((i, 2, "y")))
        assert compact_table(table.metadata, table.table_schema, patient=True) is None
    assert shape(table) == [(0, 1), (0, 1), (0, 1), (5, 3000)]
    table.compact()
    assert shape(table) == [(4, 3), (5, 3000)]
    assert table.check() == []


def test_only_the_partitions_asked_for(tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.string()), ("hour", pa.int32()), ("k", pa.int64()), ("v", pa.int64())])
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = PaimonTable.create(str(tmp_path / "t"), schema, ["day", "hour", "k"], ["day", "hour"], options)
    data = [{"day": d, "hour": h, "k": 1, "v": 1} for d in ("mon", "tue", None) for h in (1, 2)]
    table.append(pa.Table.from_pylist(data[:4], schema))

    def compacted() -> list[str]:
        files = table.files()
        pairs = zip(files["partition"].to_pylist(), files["level"].to_pylist(), strict=True)
        return sorted(partition for partition, level in pairs if level)

    assert table.compact(partitions=[]) is None
    assert table.compact(partitions=[{"day": "sun"}]) is None
    table.compact(partitions=[{"day": "mon"}])
    assert compacted() == ["day=mon/hour=1", "day=mon/hour=2"]
    table.compact(partitions=[{"day": "sun"}, {"hour": 2}])
    assert compacted() == ["day=mon/hour=1", "day=mon/hour=2", "day=tue/hour=2"]
    with pytest.raises(InvalidInput, match="'k' is not a partition column"):
        table.compact(partitions=[{"k": 1}])
    table.compact()
    assert len(compacted()) == 4
    assert table.check() == []


@pytest.mark.parametrize(("producer", "vectors"), [("lookup", "true"), ("full-compaction", "false")])
def test_tables_with_changelogs_are_refused(tmp_path: Path, producer: str, vectors: str) -> None:
    table = new_table(tmp_path / "t", changelog_producer=producer, deletion_vectors__enabled=vectors)
    table.append(rows((1, 1, "a")))
    with pytest.raises(UnsupportedFeature, match=f"'changelog-producer' = '{producer}'"):
        table.compact()
    assert len(table.snapshots()) == 1


def test_other_refusals(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(rows((1, 1, "a")))
    with pytest.raises(InvalidOption, match="travel"):
        PaimonTable.open(table.path, {"scan.snapshot-id": "1"}).compact()
    with pytest.raises(InvalidOption, match="size-ratio"):
        PaimonTable.open(table.path, {"compaction.size-ratio": "none"}).compact()
    assert files_on_disk(table) == files_in_snapshot(table)


# --------------------------------------------------------------------------- conflicts


def _compacted(table: PaimonTable) -> CompactionResult:
    """A compaction that is not committed yet."""
    result = compact_bucket(table.metadata, table.table_schema, state_of(table))
    assert result is not None
    return result


def test_the_slower_of_two_compactions_conflicts(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    for i in range(3):
        table.append(rows((1, i, "x"), (i, i, "y")))
    mine = _compacted(table)
    table.compact()
    before = files_in_snapshot(table)
    assert files_on_disk(table) > before
    with pytest.raises(CommitConflict, match="not in the table any more"):
        commit_compaction(table.metadata, table.table_schema, [mine])
    assert not mine.fits(state_of(table))
    mine.discard(table.metadata, table.table_schema)
    assert files_in_snapshot(table) == before
    assert len(table.snapshots()) == 4
    assert table.check() == []


def test_rows_marked_meanwhile_are_not_brought_back(tmp_path: Path) -> None:
    """A rewrite of a file without a vector, while another compaction marks a row of the same file."""
    table = new_table(tmp_path / "t", compaction__force_rewrite_all_files="true")
    table.append(rows(*((k, k, "x") for k in range(3))))
    table.compact()
    rewrite = compact_bucket(table.metadata, table.table_schema, state_of(table), full=True)
    assert rewrite is not None
    assert rewrite.vectors is None
    gentle = PaimonTable.open(table.path, {"compaction.force-rewrite-all-files": "false"})
    gentle.append(rows((1, None, None, "-D")))
    gentle.compact()
    assert deleted(table) == {5: [1]}
    with pytest.raises(CommitConflict, match="deletion vectors of bucket 0 have changed"):
        commit_compaction(table.metadata, table.table_schema, [rewrite])
    assert not rewrite.fits(state_of(table))
    rewrite.discard(table.metadata, table.table_schema)
    assert content(table) == [(0, 0, "x"), (2, 2, "x")]
    assert table.check() == []


def test_new_level_0_files_do_not_disturb(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.append(rows((1, 1, "a")))
    mine = _compacted(table)
    table.append(rows((1, 2, "b")))
    assert mine.fits(state_of(table))
    assert commit_compaction(table.metadata, table.table_schema, [mine]) is not None
    assert shape(table) == [(0, 1), (5, 1)]
    assert content(table) == [(1, 2, "b")]
    assert table.check() == []


def _write(path: str, commits: int, start: Any, written: Any, snapshots: Any) -> None:
    """At least so many commits, and until there were three compactions."""
    start.wait()
    table = PaimonTable.open(path)
    i = 0
    while i < commits or len(snapshots) < 3:
        table.append(rows(*((k, i, None) for k in range(i % 7, 200, 7))))
        i += 1
    written.set()


def _compact(path: str, seed: int, start: Any, written: Any, snapshots: Any) -> None:
    start.wait()
    table = PaimonTable.open(path)
    while True:
        done = written.is_set()
        with contextlib.suppress(CommitConflict):  # on a busy machine one may lose all its attempts: try again
            snapshot = table.compact(full=seed == 1 and len(snapshots) % 3 == 0)
            if snapshot is not None:
                snapshots.append(snapshot.id)
        if done:
            return


def test_a_writer_and_two_compactors_all_make_progress(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", merge_engine="partial-update", bucket="2", commit__min_retry_wait="1 ms")
    context = fork_server()
    with context.Manager() as manager:
        shared = manager.Barrier(3), manager.Event(), manager.list()
        workers = [context.Process(target=_write, args=(table.path, 30, *shared))]
        workers += [context.Process(target=_compact, args=(table.path, seed, *shared)) for seed in (0, 1)]
        for worker in workers:
            worker.start()
        assert exit_codes(workers) == [0, 0, 0]
        mine = list(shared[2])
    commits = [snapshot.commit_kind for snapshot in table.snapshots()].count("APPEND")
    assert commits >= 30
    assert sorted(mine) == [s.id for s in table.snapshots() if s.commit_kind == "COMPACT"]
    assert len(mine) > 2
    last = {k: i for i in range(commits) for k in range(i % 7, 200, 7)}
    assert content(table) == [(k, last[k], None) for k in range(200)]
    assert table.check() == []
    known: set[str] = set()
    for snapshot in table.snapshots():
        old = PaimonTable.open(table.path)
        paths = old.files({"scan.snapshot-id": str(snapshot.id)})["file_path"].to_pylist()
        known |= {path.rsplit("/", 1)[1] for path in paths}
        known |= {entry.name for entry in table.metadata.indexes.of_snapshot(snapshot).entries}
    assert files_on_disk(table) == known


# --------------------------------------------------------------------------- memory

# The high-water mark of the program itself; getrusage knows only that of its ancestors, if theirs was higher.
_MEASURE = """
import re, sys
from paimon_spark.table import PaimonTable
marks = []
for path in sys.argv[1:3]:
    assert PaimonTable.open(path).compact(full=sys.argv[3] == "full") is not None
    marks.append(int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
print(marks[1] - marks[0])
"""
# Arrow's allocator gives free memory back after some milliseconds otherwise, so that the mark depended on the clock.
_AT_ONCE = {"MIMALLOC_PURGE_DELAY": "0"}
_WIDE = pa.schema([("k", pa.int64()), ("a", pa.string()), ("b", pa.string())])


def _half(keys: range, column: str) -> pa.Table:
    """Rows of 500 bytes, all in one column."""
    texts = pa.array([f"{i:0500d}" for i in range(997)])
    columns = {name: pa.nulls(len(keys), pa.string()) for name in ("a", "b")}
    columns[column] = texts.take(pa.array([k % 997 for k in keys]))
    return pa.table({"k": pa.array(keys, pa.int64()), **columns}, schema=_WIDE)


@pytest.mark.parametrize("mode", ["full", "lookup"])
def test_a_bucket_ten_times_larger_than_the_memory_compacts(tmp_path: Path, mode: str) -> None:
    """After a small bucket was compacted, so that all code is loaded, the large one takes a tenth of its size more."""
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "deletion-vectors.enabled": str(mode == "lookup").lower(),
        "parquet.block.size": "1 mb",
        "parquet.enable.dictionary": "false",
        "read.batch-size": "1000",
        "sort-spill-buffer-size": "4 mb",
        "file.compression": "none",
    }
    paths = []
    for name, count in (("small", 20_000), ("large", 600_000)):
        table = PaimonTable.create(str(tmp_path / name), _WIDE, ["k"], options=options)
        paths.append(table.path)
        table.append(_half(range(count), "a"))
        if mode == "lookup":
            table.compact()
        table.append(_half(range(0, count, 2), "b"))
    size = sum(table.files()["file_size_in_bytes"].to_pylist())
    command = [sys.executable, "-c", _MEASURE, *paths, mode]
    measured = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **_AT_ONCE})
    grown = int(measured.stdout)
    assert grown * 10 < size, f"{grown / 2**20:.0f} MB for {size / 2**20:.0f} MB"
    assert table.read(["k"], [("b", "is not null", None)]).num_rows == 300_000
