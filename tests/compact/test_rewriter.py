"""Rewriting and lookups on real files: what is merged, dropped and marked, section by section."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_spark.compact.bucket_files import BucketFiles
from paimon_spark.compact.deletion_maintainer import DeletionVectorMaintainer
from paimon_spark.compact.levels import LevelRun
from paimon_spark.compact.lookup_rewriter import LookupRewriter
from paimon_spark.compact.older_versions import OlderVersions
from paimon_spark.compact.rewriter import Rewriter
from paimon_spark.compact.task import Rewrite
from paimon_spark.files.key_values import KeyValues, concat
from paimon_spark.lookup import LookupLevels
from paimon_spark.metadata.data_file import COMPACT, DataFile
from paimon_spark.table import PaimonTable
from tests.compact.tables import new_table, rows, state_of

Row = tuple[int, int | None, str | None, int]


class Bucket:
    """The only bucket of a table, opened for compaction; files by the order in which they were appended."""

    def __init__(self, table: PaimonTable) -> None:
        state = state_of(table)
        self.table = table
        self.files = sorted((entry.file for entry in state.entries), key=lambda file: file.min_sequence)
        self.open = BucketFiles(table.metadata, table.table_schema, state.partition, state.bucket)
        self.vectors = DeletionVectorMaintainer(table.metadata, self.files, {})

    def rewriter(self, level: int, drop_delete: bool = True) -> Rewriter:
        return Rewriter(self.open, self.vectors, level, drop_delete)

    def lookup_rewriter(self, level: int, upper: list[LevelRun], merges_older: bool) -> LookupRewriter:
        def no_lookup() -> LookupLevels:
            raise AssertionError("few stored rows are scanned")

        older = OlderVersions(self.open, self.vectors, upper, no_lookup)
        return LookupRewriter(self.rewriter(level), older, merges_older, True)

    def rows(self, files: list[DataFile]) -> list[Row]:
        """(k, a, b, kind) of the rows of files, one after the other."""
        fields = self.table.table_schema.fields
        parts = [part for f in files for part in self.open.read(f, fields, sequence=True, deletion=None)]
        if not parts:
            return []
        read: KeyValues = concat(parts)
        kinds = [0] * len(read) if read.kind is None else read.kind.tolist()
        columns = [read.values.column(name).to_pylist() for name in ("k", "a", "b")]
        return list(zip(*columns, kinds, strict=True))


def _bucket(path: Path, *appends: pa.Table, **options: str) -> Bucket:
    table = new_table(path, **options)
    for data in appends:
        table.append(data)
    return Bucket(table)


@pytest.mark.parametrize("drop", [True, False])
def test_deletes_stay_unless_nothing_below_needs_them(tmp_path: Path, drop: bool) -> None:
    bucket = _bucket(
        tmp_path / "t", rows((1, 1, "a"), (2, 2, "b")), rows((1, 9, "z", "-D"), (3, 3, "c", "+U")), rows((5, 5, "e"))
    )
    one, two, three = bucket.files
    (made,) = bucket.rewriter(3, drop).rewrite([((one,), (two,)), ((three,),)])
    kept: list[Row] = [(2, 2, "b", 0), (3, 3, "c", 2), (5, 5, "e", 0)]
    assert bucket.rows([made]) == ([] if drop else [(1, 9, "z", 3)]) + [
        (k, a, b, 0 if drop else kind) for k, a, b, kind in kept
    ]
    assert (made.level, made.source, made.row_count) == (3, COMPACT, 3 if drop else 4)
    assert made.delete_row_count == (0 if drop else 1)
    assert (made.min_sequence, made.max_sequence) == (1, 4)


def test_when_all_is_deleted_there_is_no_file(tmp_path: Path) -> None:
    bucket = _bucket(tmp_path / "t", rows((1, 1, "a")), rows((1, None, None, "-D")))
    one, two = bucket.files
    assert bucket.rewriter(5).rewrite([((one,), (two,))]) == []


def test_vectors_apply_before_the_merge(tmp_path: Path) -> None:
    bucket = _bucket(
        tmp_path / "t",
        rows((1, 1, "a"), (2, 2, "b")),
        rows((1, 10, None), (2, 20, None)),
        merge_engine="partial-update",
    )
    one, two = bucket.files
    bucket.vectors.mark(one.name, BitMap([0]))
    bucket.vectors.mark(two.name, BitMap([1]))
    made = bucket.rewriter(5).rewrite([((two,), (one,))])
    assert bucket.rows(made) == [(1, 10, None, 0), (2, 2, "b", 0)]


def test_older_versions_of_several_sections_levels_and_files(tmp_path: Path) -> None:
    """Level 3 has keys 1 and 50, level 5 two files; the new files make two sections, one of two runs."""
    bucket = _bucket(
        tmp_path / "t",
        rows(*((k, k, "five") for k in range(0, 40, 2))),
        rows(*((k, k, "five") for k in range(40, 99, 2))),
        rows((1, 1, "three"), (50, None, "three")),
        rows((2, None, "new"), (4, 400, None), (5, 5, None)),
        rows((1, 100, None), (2, 200, None), (3, None, None)),
        rows((50, 500, None), (60, None, None), (98, 9, None, "-D")),
        merge_engine="partial-update",
        ignore_delete="false",
        partial_update__remove_record_on_delete="true",
    )
    low, high, three, a, b, c = bucket.files
    bucket.vectors.mark(high.name, BitMap([(50 - 40) // 2]))
    upper = [LevelRun(3, (three.at_level(3),)), LevelRun(5, (low.at_level(5), high.at_level(5)))]
    step = Rewrite((((b,), (a,)), ((c,),)), lookup=True)
    made = bucket.lookup_rewriter(2, upper, merges_older=True).rewrite(step)
    assert bucket.rows(made) == [
        (1, 100, "three", 0),
        (2, 200, "new", 0),
        (3, None, None, 0),
        (4, 400, "five", 0),
        (5, 5, None, 0),
        (50, 500, "three", 0),
        (60, 60, "five", 0),
    ]
    marked = {f.name: v.positions().tolist() for f in bucket.files if (v := bucket.vectors.vector(f.name))}
    assert marked == {three.name: [0, 1], low.name: [1, 2], high.name: [5, 10, 29]}


def test_marks_alone_need_no_merge(tmp_path: Path) -> None:
    """Deduplicate: a step of two new files, and one that only moves up."""
    bucket = _bucket(
        tmp_path / "t",
        rows(*((k, k, "old") for k in range(10))),
        rows((2, 20, "new"), (11, 11, "new")),
        rows((2, None, None, "-D"), (3, 30, "new")),
        rows((7, 70, "new")),
    )
    old, a, b, c = bucket.files
    rewriter = bucket.lookup_rewriter(4, [LevelRun(5, (old.at_level(5),))], merges_older=False)
    made = rewriter.rewrite(Rewrite((((a,), (b,)),), lookup=True))
    assert bucket.rows(made) == [(3, 30, "new", 0), (11, 11, "new", 0)]
    rewriter.upgrade(c)
    vector = bucket.vectors.vector(old.name)
    assert vector is not None
    assert vector.positions().tolist() == [2, 3, 7]


def test_keys_of_any_type_are_found_batch_by_batch(tmp_path: Path) -> None:
    """Composite keys with strings, batches of seven rows, so that both sides end in the middle of the other."""
    schema = pa.schema([("s", pa.string()), ("n", pa.int16()), ("v", pa.int64())])
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "read.batch-size": "7"}
    table = PaimonTable.create(str(tmp_path / "t"), schema, ["s", "n"], options=options)
    stored = [("x" * (i % 5) + chr(97 + i % 26), i) for i in range(300)]
    asked = [stored[i] for i in range(0, 300, 11)] + [("", 0), ("zz", 300), ("x", -1)]
    for keys in (stored, asked[:10], asked):
        columns = list(zip(*keys, strict=True))
        table.append(pa.table([*columns, range(len(keys))], schema=schema))
    bucket = Bucket(table)
    old, a, b = bucket.files
    bucket.lookup_rewriter(4, [LevelRun(5, (old.at_level(5),))], merges_older=False).rewrite(
        Rewrite((((a,), (b,)),), lookup=True)
    )
    order = sorted(stored)
    vector = bucket.vectors.vector(old.name)
    assert vector is not None
    assert vector.positions().tolist() == sorted(order.index(key) for key in set(asked) & set(stored))
