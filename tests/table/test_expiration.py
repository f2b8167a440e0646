"""Snapshots expire: nothing that is kept loses a file, nothing that nobody keeps stays, and Java does the same."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, NotFound
from paimon_spark.table import PaimonTable
from tests.java.referee import JavaPaimon
from tests.java.rows import assert_same_rows
from tests.sizes import seeded, sized

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.int64())])
VECTORS = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"}
NOW = timedelta(0)


def new_table(path: Path, **options: str) -> PaimonTable:
    given = {"bucket": "2", "write-only": "true", **options}
    return PaimonTable.create(str(path), SCHEMA, ["p", "k"], ["p"], given)


def data(chance: random.Random, value: int) -> pa.Table:
    keys = [(p, k) for p in "xy" for k in chance.sample(range(40), chance.randrange(1, 12))]
    return pa.table({"p": [p for p, _ in keys], "k": [k for _, k in keys], "v": [value] * len(keys)})


def act(table: PaimonTable, chance: random.Random, value: int) -> None:
    """One or two commits of any kind: files come, move to other levels, are replaced and dropped."""
    table.append(data(chance, value))
    way = chance.random()
    if way < 0.5:
        table.compact(full=way < 0.2)
    elif way < 0.65:
        table.overwrite(data(chance, value), dynamic=way < 0.6)


def files(root: str) -> set[str]:
    return {str(file.relative_to(root)) for file in Path(root).rglob("*") if file.is_file()}


def rows(table: PaimonTable, **options: Any) -> list[dict[str, Any]]:
    return sorted(table.read(options=options).to_pylist(), key=lambda row: (row["p"], row["k"]))


def versions(table: PaimonTable) -> Iterator[dict[str, str]]:
    """The options that read each snapshot and each tag."""
    yield from ({"scan.snapshot-id": str(id_)} for id_ in table.metadata.snapshots.ids())
    yield from ({"scan.tag-name": name} for name in table.metadata.snapshots.tags())


def assert_whole(table: PaimonTable) -> None:
    """Nothing is missing or damaged, and nothing is there that nobody refers to."""
    assert table.check(all_snapshots=True) == []
    assert table.remove_orphan_files(timedelta(0), dry_run=True) == []


def tag(table: PaimonTable, name: str, snapshot_id: int, root: str = "") -> None:
    """What Java's createTag writes: a copy of the snapshot."""
    path = Path(table.path) / root / "tag" / f"tag-{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(table.path) / "snapshot" / f"snapshot-{snapshot_id}", path)


def branch(table: PaimonTable, name: str, snapshot_id: int) -> None:
    """What Java's createBranch writes: copies of a snapshot, its tag and the schemas."""
    root = Path(table.path) / "branch" / f"branch-{name}"
    (root / "snapshot").mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(table.path) / "snapshot" / f"snapshot-{snapshot_id}", root / "snapshot")
    shutil.copytree(Path(table.path) / "schema", root / "schema")


def assert_java_reads_the_same(java: JavaPaimon, table: PaimonTable, version: Mapping[str, str] | None = None) -> None:
    """With deletion vectors Java leaves out what is not compacted yet."""
    ours = {**(version or {}), "deletion-vectors.merge-on-read": "false"}
    assert_same_rows(java.read(table.path, options=version), table.read(options=ours))


@pytest.mark.parametrize("options", [{}, VECTORS], ids=["merged on read", "deletion vectors"])
def test_histories_of_all_kinds(tmp_path: Path, options: dict[str, str]) -> None:
    """Tags and branches at random moments; some snapshots expire after each commit."""
    chance = seeded(f"histories, {options}")
    expired = 0
    for number in range(sized(1, 100)):
        table = new_table(tmp_path / str(number), **options)
        kept: dict[str, list[dict[str, Any]]] = {}
        for value in range(10):
            act(table, chance, value)
            newest = table.metadata.snapshots.latest_id()
            assert newest is not None
            if chance.random() < 0.25:
                tag(table, f"t{value}", newest)
                kept[f"t{value}"] = rows(table)
            if chance.random() < 0.1:
                branch(table, f"b{value}", newest)
            before = {id_: rows(table, **{"scan.snapshot-id": id_}) for id_ in table.metadata.snapshots.ids()}
            most = chance.randrange(1, 6)
            expired += table.expire_snapshots(most, chance.randint(1, most), NOW, chance.choice([1, 3, 50]))
            for id_ in table.metadata.snapshots.ids():
                assert rows(table, **{"scan.snapshot-id": id_}) == before[id_]
            for name, expected in kept.items():
                assert rows(table, **{"scan.tag-name": name}) == expected
        assert_whole(table)
        for snapshot in (Path(table.path) / "branch").glob("branch-*/snapshot/snapshot-*"):
            destination = Path(table.path) / "tag" / f"tag-{snapshot.parent.parent.name}"
            destination.parent.mkdir(exist_ok=True)
            shutil.copy(snapshot, destination)  # what a branch has is checked as if a tag had it
        assert table.check(all_snapshots=True) == []
    assert expired


@pytest.mark.parametrize("options", [{}, VECTORS], ids=["merged on read", "deletion vectors"])
def test_java_deletes_the_same_files_and_goes_on(tmp_path: Path, java: JavaPaimon, options: dict[str, str]) -> None:
    chance = seeded(f"as Java, {options}")
    table = new_table(tmp_path / "ours", **options)
    for value in range(10):
        act(table, chance, value)
        newest = table.metadata.snapshots.latest_id() or 0
        if value in (3, 6):
            java.tag(table.path, f"t{value}", newest)
        if value == 5:
            java.branch(table.path, "b", "t3")
    shutil.copytree(table.path, tmp_path / "java")
    theirs = PaimonTable.open(str(tmp_path / "java"))
    before = {str(version): rows(table, **version) for version in versions(table)}
    for fewest, most in ((4, 9), (2, 2)):
        assert table.expire_snapshots(most, fewest, NOW) == java.expire(theirs.path, fewest, most) > 0
        assert files(table.path) == files(theirs.path)
        assert (Path(table.path) / "snapshot/EARLIEST").read_bytes() == (
            Path(theirs.path) / "snapshot/EARLIEST"
        ).read_bytes()
    for version in versions(table):
        assert rows(table, **version) == before[str(version)]
        assert_java_reads_the_same(java, table, version)
    assert_whole(table)
    java.append(table.path, data(chance, 100), compact="auto" if options else "full")
    assert java.expire(table.path, 1, 1) > 0
    assert_java_reads_the_same(java, table)
    assert_whole(table)
    table.append(data(chance, 101))
    assert table.expire_snapshots(1, 1) == 1
    assert_java_reads_the_same(java, table)
    assert_whole(table)


def test_changelogs_of_java_go_with_their_snapshots(tmp_path: Path, java: JavaPaimon) -> None:
    chance = seeded("changelogs")
    path = tmp_path / "ours"
    columns = {"p": "STRING NOT NULL", "k": "BIGINT NOT NULL", "v": "BIGINT"}
    options = {"bucket": "1", "changelog-producer": "lookup"}
    java.create(path, columns, ["p", "k"], ["p"], options)
    for value in range(6):
        java.append(path, data(chance, value), compact="auto")
        if value == 2:
            java.tag(path, "t", 4)
    table = PaimonTable.open(str(path))
    assert any(snapshot.changelog_manifest_list for snapshot in table.snapshots())
    shutil.copytree(path, tmp_path / "java")
    assert table.expire_snapshots(3, 3) == java.expire(tmp_path / "java", 3, 3) > 5
    assert files(str(path)) == files(str(tmp_path / "java"))
    assert_whole(table)
    assert_same_rows(java.read(path), table.read())
    assert_same_rows(java.read(path, options={"scan.tag-name": "t"}), table.read(options={"scan.tag-name": "t"}))


def test_a_branch_keeps_what_it_began_with(tmp_path: Path) -> None:
    """Its tags as well, of which one is older than its oldest snapshot; manifests and index files are the table's."""
    chance = random.Random(7)
    table = new_table(tmp_path, **VECTORS)
    kept = {}
    for value in range(12):
        table.append(data(chance, value))
        table.compact(full=value % 4 == 3)
        newest = table.metadata.snapshots.latest_id() or 0
        if value in (5, 8):
            kept[value] = rows(table)
            if value == 5:
                tag(table, "older", newest, "branch/branch-b")
            else:
                branch(table, "b", newest)
    assert table.expire_snapshots(1, 1) > 12
    assert table.remove_orphan_files(timedelta(0), dry_run=True) == []
    (tmp_path / "tag").mkdir()
    shutil.copy(tmp_path / "branch/branch-b/tag/tag-older", tmp_path / "tag/tag-5")
    (snapshot,) = (tmp_path / "branch/branch-b/snapshot").iterdir()
    shutil.copy(snapshot, tmp_path / "tag/tag-8")
    assert table.check(all_snapshots=True) == []
    assert {value: rows(table, **{"scan.tag-name": str(value)}) for value in kept} == kept


def test_arguments_that_make_no_sense(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert table.expire_snapshots() == 0
    for arguments in ({"retain_max": 3}, {"retain_min": 0}, {"max_deletes": 0}, {"older_than": timedelta(-1)}):
        with pytest.raises(InvalidInput):
            table.expire_snapshots(**arguments)  # type: ignore[arg-type]


def test_an_expired_snapshot_says_so(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for value in range(4):
        table.append(data(random.Random(value), value))
    tag(table, "first", 1)
    assert table.expire_snapshots(1, 1) == 3
    with pytest.raises(NotFound, match=r"snapshot 1 of table .* has expired.*the earliest is 4.*the tags are: first"):
        table.read(options={"scan.snapshot-id": "1"})
    assert table.read(options={"scan.tag-name": "first"}).num_rows > 0
    with pytest.raises(NotFound, match=r"no snapshot at or before 5 ms.*earliest, 4.*expired"):
        table.read(options={"scan.timestamp-millis": "5"})


@pytest.mark.parametrize("options", [{}, VECTORS], ids=["merged on read", "deletion vectors"])
def test_a_reader_whose_snapshot_expires_gets_all_rows_or_an_error(tmp_path: Path, options: dict[str, str]) -> None:
    """At every moment: before the plan, after it, and after each batch."""
    chance = random.Random(5)
    table = new_table(tmp_path / "t", **options)
    for value in range(4):
        table.append(data(chance, value))
    table.compact()
    expected = table.read().num_rows
    errors: list[str] = []
    while True:
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        shutil.copytree(table.path, tmp_path / "c")
        copy = PaimonTable.open(str(tmp_path / "c"))
        scan = copy.scan(options={"read.batch-size": "4"})
        batches: list[pa.RecordBatch] = []
        reading = scan.batches()
        if len(errors) > 1:
            assert scan.splits
            batches += itertools.islice(reading, len(errors) - 2)
        copy.overwrite(data(chance, 9), dynamic=False)
        assert copy.expire_snapshots(1, 1) > 3
        assert len(copy.metadata.snapshots.ids()) == 1
        try:
            batches += reading
        except NotFound as problem:
            errors.append(str(problem))
            continue
        assert sum(batch.num_rows for batch in batches) == expected
        break
    assert len(errors) > 3
    said = re.compile(r"snapshot \d of the table .* has expired while it was read.* tag it.*snapshot\.time-retained")
    assert all(said.search(error) for error in errors)


@pytest.mark.parametrize("kept_by", ["tag", "consumer"])
def test_a_tag_and_a_consumer_protect_a_reader(tmp_path: Path, kept_by: str) -> None:
    chance = random.Random(6)
    table = new_table(tmp_path)
    table.append(data(chance, 1))
    expected = rows(table)
    scan = table.scan()
    if kept_by == "tag":
        tag(table, "reader", 1)
    else:
        (tmp_path / "consumer").mkdir()
        (tmp_path / "consumer/consumer-reader").write_text('{"nextSnapshot": 1}')
    table.overwrite(data(chance, 2), dynamic=False)
    assert table.expire_snapshots(1, 1) == (1 if kept_by == "tag" else 0)
    found = pa.Table.from_batches(scan.batches(), scan.schema).to_pylist()
    assert sorted(found, key=lambda row: (row["p"], row["k"])) == expected
