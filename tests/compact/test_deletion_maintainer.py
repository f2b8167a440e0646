"""The deletion vectors of a bucket while it is compacted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyroaring import BitMap

from paimon_spark.compact.deletion_maintainer import DeletionVectorMaintainer
from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import MAGIC_32, MAGIC_64, DeletionVector, read_deletion_vector
from paimon_spark.metadata.index_manifest import IndexEntry
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.table import PaimonTable
from tests.compact.tables import filler, new_table, state_of

PARTITION = b"\0\0\0\0" + bytes(8)


class Bucket:
    """A bucket of one file of 3000 rows and what was written of its vectors."""

    def __init__(self, path: Path, **options: str) -> None:
        self.table: PaimonTable = new_table(path, **options)
        self.table.append(filler())
        self.file: DataFile = state_of(self.table).entries[0].file

    def refs(self, vectors: dict[str, list[int]], wide: bool = False) -> dict[str, DeletionVectorRef]:
        written = {name: DeletionVector.of(positions) for name, positions in vectors.items()}
        indexes = self.table.metadata.indexes
        return self.refs_of(indexes.write_vectors(PARTITION, 0, written, self.table.table_schema, wide))

    def refs_of(self, entry: IndexEntry) -> dict[str, DeletionVectorRef]:
        path = self.table.metadata.indexes.index_path(entry, self.table.table_schema)
        return {r.file: DeletionVectorRef(r.file, path, r.offset, r.length, r.cardinality) for r in entry.ranges or ()}

    def maintainer(self, refs: dict[str, DeletionVectorRef]) -> DeletionVectorMaintainer:
        return DeletionVectorMaintainer(self.table.metadata, [self.file], refs)

    def written(self, maintainer: DeletionVectorMaintainer) -> dict[str, list[int]]:
        refs = self.refs_of(maintainer.write(PARTITION, 0, self.table.table_schema))
        storage = self.table.metadata.storage
        return {name: read_deletion_vector(storage, ref, 3000).positions().tolist() for name, ref in refs.items()}


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path / "t")


def test_marks_join_the_vectors_of_the_snapshot(bucket: Bucket) -> None:
    name = bucket.file.name
    maintainer = bucket.maintainer(bucket.refs({name: [3, 4]}))
    assert maintainer.has(name)
    assert not maintainer.modified
    maintainer.mark(name, BitMap([4]))
    assert not maintainer.modified
    maintainer.mark(name, BitMap([4, 9]))
    maintainer.mark("new", BitMap([0]))
    assert maintainer.modified
    assert bucket.written(maintainer) == {name: [3, 4, 9], "new": [0]}
    vector = maintainer.vector(name)
    assert vector is not None
    assert vector.cardinality == 3
    assert maintainer.vector("other") is None


def test_vectors_of_rewritten_files_go(bucket: Bucket) -> None:
    name = bucket.file.name
    maintainer = bucket.maintainer(bucket.refs({name: [3]}))
    maintainer.mark(name, BitMap([5]))
    maintainer.remove(name)
    assert maintainer.modified
    assert not maintainer.has(name)
    assert maintainer.vector(name) is None
    assert bucket.written(maintainer) == {}


def test_the_last_vector_leaves_an_index_file_without_any(bucket: Bucket) -> None:
    maintainer = bucket.maintainer(bucket.refs({bucket.file.name: [3]}))
    maintainer.remove(bucket.file.name)
    entry = maintainer.write(PARTITION, 0, bucket.table.table_schema)
    assert (entry.size, entry.row_count, entry.ranges) == (1, 0, ())
    path = bucket.table.metadata.indexes.index_path(entry, bucket.table.table_schema)
    assert Path(path).read_bytes() == b"\1"


def test_a_mark_that_is_taken_back_is_no_change(bucket: Bucket) -> None:
    maintainer = bucket.maintainer({})
    maintainer.mark("made and replaced", BitMap([1]))
    maintainer.remove("made and replaced")
    maintainer.remove("never seen")
    assert not maintainer.modified


def test_vectors_of_files_that_are_gone_are_not_carried_on(bucket: Bucket) -> None:
    maintainer = bucket.maintainer(bucket.refs({"gone": [1], bucket.file.name: [2]}))
    assert not maintainer.has("gone")
    maintainer.mark(bucket.file.name, BitMap([7]))
    assert bucket.written(maintainer) == {bucket.file.name: [2, 7]}


@pytest.mark.parametrize("option", ["true", "false"])
@pytest.mark.parametrize("stored", [None, True, False])
def test_the_form_is_the_stored_one_and_else_that_of_the_option(
    tmp_path: Path, option: str, stored: bool | None
) -> None:
    bucket = Bucket(tmp_path / "t", deletion_vectors__bitmap64=option)
    maintainer = bucket.maintainer({} if stored is None else bucket.refs({bucket.file.name: [3]}, stored))
    maintainer.mark(bucket.file.name, BitMap([8]))
    entry = maintainer.write(PARTITION, 0, bucket.table.table_schema)
    wide = option == "true" if stored is None else stored
    path = bucket.table.metadata.indexes.index_path(entry, bucket.table.table_schema)
    assert Path(path).read_bytes()[5:9] == (MAGIC_64 if wide else MAGIC_32)
    positions = [8] if stored is None else [3, 8]
    assert bucket.written(maintainer) == {bucket.file.name: positions}


def test_damaged_vectors_are_an_error(bucket: Bucket) -> None:
    refs = bucket.refs({bucket.file.name: [3000]})
    maintainer = bucket.maintainer(refs)
    with pytest.raises(CorruptFile, match="row 3000 of a data file with 3000 rows"):
        maintainer.mark(bucket.file.name, BitMap([1]))
