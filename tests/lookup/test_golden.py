"""Lookup files of Java: read with Java's answers, and written again byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.lookup import HashLookupStore, SortLookupStore
from paimon_spark.lookup.bloom_filter import BloomFilter, filter_bytes
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.key_order import BYTEWISE
from paimon_spark.lookup.store_reader import StoreReader
from paimon_spark.rows.murmur import hash_bytes_many
from tests.java.referee import JavaPaimon
from tests.lookup.conftest import GoldenFile
from tests.lookup.java_stores import JavaStores
from tests.lookup.stores import cut, reader, writer

SECTIONS = ("key_counts", "slot_sizes", "slots", "index_offsets", "data_offsets", "bloom_keys", "bloom_bytes")


def open_java(file: GoldenFile) -> StoreReader:
    if isinstance(file.context, HashContext):
        return HashLookupStore.reader(str(file.path), file.context)
    return SortLookupStore.reader(str(file.path), file.context, order=file.order)


def questions(file: GoldenFile) -> list[tuple[bytes, bytes | None]]:
    """Java's queries; those of compact rows are well-formed ones only, because a typed order reads its keys."""
    absent = [] if file.order is BYTEWISE else [key for key, answer in file.answers if answer is None]
    return file.pairs + [pair for pair in file.answers if pair[0] not in absent]


def test_there_are_72_files_of_java(golden_files: list[GoldenFile]) -> None:
    assert len(golden_files) == 72


def test_java_files_give_java_answers(golden_files: list[GoldenFile]) -> None:
    for file in golden_files:
        opened = open_java(file)
        asked = questions(file)
        assert opened.get_many([key for key, _ in asked]).to_pylist() == [value for _, value in asked], file.name
        assert [opened.get(key) for key, _ in file.pairs[:50]] == [value for _, value in file.pairs[:50]], file.name
        opened.close()


def test_files_are_written_as_java_writes_them(golden_files: list[GoldenFile], tmp_path: Path) -> None:
    for file in golden_files:
        path = tmp_path / file.name
        rate = 0.05 if file.bloom else None
        made = writer(file.kind, path, len(file.pairs), rate, file.compression, file.page_size, file.order)
        third = len(file.pairs) // 3
        made.put_many(*map(list, zip(*file.pairs[:third], strict=True)) if third else ([], []))
        for key, value in file.pairs[third:]:
            made.put(key, value)
        context = made.close()
        if file.compression != "zstd":  # zstd frames depend on the library's version
            assert path.read_bytes() == file.path.read_bytes(), file.name
        if isinstance(context, HashContext):
            for name in SECTIONS:
                assert getattr(context, name) == getattr(file.context, name), (file.name, name)
        opened = reader(file.kind, path, order=file.order)
        asked = questions(file)
        assert opened.get_many([key for key, _ in asked]).to_pylist() == [value for _, value in asked], file.name
        opened.close()


def test_sort_files_of_both_versions_are_equal(golden_directory: Path, golden_files: list[GoldenFile]) -> None:
    newer = golden_directory / "java-2.0-sort"
    for file in golden_files:
        if file.kind == "sort":
            assert (newer / file.path.name).read_bytes() == file.path.read_bytes(), file.name


def test_bloom_filters_are_those_of_java(golden_directory: Path) -> None:
    golden = json.loads((golden_directory / "bloom.json").read_text())
    others = hash_bytes_many(pa.array([b"m%d" % i for i in range(10_000)], pa.binary()))
    for case in golden["filters"]:
        bloom = BloomFilter.sized(case["expected"], case["fpp"])
        added = hash_bytes_many(pa.array([b"k%d" % i for i in range(case["added"])], pa.binary()))
        bloom.add(added)
        assert bloom.bits.size == case["bytes"]
        assert case["hex"] in (None, bloom.bits.tobytes().hex())
        assert bloom.passing(added).tolist() == list(range(len(added)))
        assert len(bloom.passing(others)) == case["positives_of_10000_nonmembers_utf8('m'+i)"]


def test_a_filter_says_the_same_of_many_keys_as_of_each() -> None:
    hashes = hash_bytes_many(pa.array([b"key %d" % i for i in range(6_000)], pa.binary()))
    bloom = BloomFilter.sized(3_000, 0.05)
    bloom.add(hashes[:3_000])
    each = [i for i in range(6_000) if len(bloom.passing(hashes[i : i + 1]))]
    assert bloom.passing(hashes).tolist() == each
    assert each[:3_000] == list(range(3_000))
    assert 3_000 < len(each) < 3_500


def test_a_filter_grows_the_same_by_few_keys_at_a_time() -> None:
    hashes = hash_bytes_many(pa.array([b"key %d" % i for i in range(3_000)], pa.binary()))
    at_once, in_steps = BloomFilter.sized(3_000, 0.01), BloomFilter.sized(3_000, 0.01)
    at_once.add(hashes)
    for i in range(0, 3_000, 7):
        in_steps.add(hashes[i : i + 7])
    assert at_once.bits.tobytes() == in_steps.bits.tobytes()


@pytest.mark.parametrize(
    ("keys", "rate", "size"), [(1, 0.05, 1), (10, 0.05, 8), (1000, 0.01, 1199), (10**6, 0.05, 779403)]
)
def test_filter_sizes(keys: int, rate: float, size: int) -> None:
    assert filter_bytes(keys, rate) == size


def test_java_reads_what_is_written_here(java: JavaPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compression, with and without a filter, in files of many pages; those of zstd in four pieces."""
    cut(monkeypatch, 256)
    stores = JavaStores(java)
    pairs = {b"key %06d" % (i * 7): b"value %d" % (i // 3) * (i % 5) for i in range(400)}
    pairs |= {b"%d" % i: b"short" for i in range(50)}
    for kind in ("hash", "sort"):
        for compression in ("none", "lz4", "zstd"):
            for rate in (None, 0.05):
                path = tmp_path / f"{kind}-{compression}-{rate}"
                made = writer(kind, path, len(pairs), rate, compression, 1024)
                made.put_many(sorted(pairs), [pairs[key] for key in sorted(pairs)])
                context = made.close()
                assert compression != "zstd" or isinstance(context, HashContext) or context.pieces is not None
                opened = stores.reader(kind, path, context, compression, 1024)
                for key in [*list(pairs)[::3], b"absent", b"key 000001"]:
                    found = opened.lookup(key)
                    assert (None if found is None else bytes(found)) == pairs.get(key), (path.name, key)
                opened.close()
