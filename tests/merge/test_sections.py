"""Sections and sorted runs of key ranges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFile
from paimon_spark.merge.keys import KeyArray, normalize
from paimon_spark.merge.sections import file_key_ranges, sections, sorted_runs
from paimon_spark.metadata.data_file import DataFile, Statistics
from paimon_spark.rows.binary_row import EMPTY_ROW, serialize
from paimon_spark.types import parse_type

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=20)


def keys_of(ranges: list[tuple[int, int]], as_bytes: bool) -> tuple[KeyArray, KeyArray]:
    """Bounds as int64 keys, or as wide byte strings of the same order."""
    ends = np.array([low for low, _ in ranges] + [high for _, high in ranges], np.int64)
    keys: KeyArray = ends
    if as_bytes:
        text = pa.array([f"a long key that takes many bytes {n:03d}" for n in ends.tolist()], pa.string())
        keys = normalize([text], [parse_type("STRING")])
        assert not len(keys) or keys.dtype.kind == "S"
    return keys[: len(ranges)], keys[len(ranges) :]


def overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


@given(RANGES, st.booleans())
def test_sections_are_the_chains_of_overlaps(ranges: list[tuple[int, int]], as_bytes: bool) -> None:
    found = sections(*keys_of(ranges, as_bytes))
    files = [file for section in found for file in section]
    assert sorted(files) == list(range(len(ranges)))
    assert [ranges[file] for file in files] == sorted(ranges)
    for section, following in pairwise(found):
        assert max(ranges[f][1] for f in section) < min(ranges[f][0] for f in following)
    for section in found:
        for i in range(1, len(section)):
            assert any(overlap(ranges[section[i]], ranges[f]) for f in section[:i])


@given(RANGES, st.booleans())
def test_runs_are_disjoint_and_as_few_as_can_be(ranges: list[tuple[int, int]], as_bytes: bool) -> None:
    runs = sorted_runs(*keys_of(ranges, as_bytes))
    assert sorted(file for run in runs for file in run) == list(range(len(ranges)))
    for run in runs:
        for left, right in pairwise(run):
            assert ranges[left][1] < ranges[right][0]
    deepest = max((sum(low <= key <= high for low, high in ranges) for key in range(50)), default=0)
    assert len(runs) == deepest
    firsts = [ranges[run[0]] for run in runs]
    assert firsts == sorted(firsts)


def test_a_file_that_joins_two_others() -> None:
    a, b, c, d = (1, 5), (2, 3), (4, 9), (10, 11)
    bounds = keys_of([d, c, b, a], as_bytes=False)
    assert sections(*bounds) == [[3, 2, 1], [0]]
    assert sorted_runs(*bounds) == [[3, 0], [2, 1]]


def test_touching_bounds_overlap() -> None:
    assert sections(*keys_of([(1, 2), (2, 3), (4, 4)], as_bytes=False)) == [[0, 1], [2]]


def data_file(name: str, min_key: bytes, max_key: bytes) -> DataFile:
    none = Statistics(EMPTY_ROW, EMPTY_ROW, ())
    return DataFile(name, 1, 1, min_key, max_key, none, none, 0, 0, 0, 0)


def test_key_ranges_of_files() -> None:
    types = [parse_type("STRING NOT NULL"), parse_type("INT NOT NULL")]
    rows = serialize([pa.array(["a", "b", "b", "c a long one"]), pa.array([7, -1, 0, 3], pa.int32())], types)
    files = [data_file("x", rows[0], rows[1]), data_file("y", rows[2], rows[3]), data_file("z", rows[1], rows[2])]
    mins, maxs = file_key_ranges(files, types)
    assert sections(mins, maxs) == [[0, 2, 1]]
    assert sorted_runs(mins, maxs) == [[0, 1], [2]]
    assert sections(mins[:2], maxs[:2]) == [[0], [1]]


def test_no_files() -> None:
    mins, maxs = file_key_ranges([], [parse_type("STRING"), parse_type("BIGINT")])
    assert sections(mins, maxs) == []
    assert sorted_runs(mins, maxs) == []


def test_damaged_bounds_are_reported() -> None:
    with pytest.raises(CorruptFile):
        file_key_ranges([data_file("x", EMPTY_ROW, EMPTY_ROW)], [parse_type("INT")])
