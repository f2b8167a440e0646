"""Merging sorted runs window by window, and folding buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.files.key_values import KeyValues, concat
from paimon_spark.merge.engine import MergeEngine
from paimon_spark.merge.key_groups import group_rows
from paimon_spark.merge.sorted_merge import fold, merge_runs
from tests.merge.records import engine_of, fields_of, keys_of

FIELDS = fields_of(k="BIGINT NOT NULL", v="INT", w="STRING")
DEDUPLICATE = engine_of({}, FIELDS)
PARTIAL = engine_of({"merge-engine": "partial-update"}, FIELDS)


def run_of(keys: Sequence[int] | np.ndarray, v: int, w: str | None = None) -> KeyValues:
    n = len(keys)
    return KeyValues(
        pa.table(
            {
                "k": pa.array(keys, pa.int64()),
                "v": pa.array([v] * n, pa.int32()),
                "w": pa.array([w] * n, pa.string()),
            }
        )
    )


def cut(rows: KeyValues, size: int) -> Iterator[KeyValues]:
    for start in range(0, len(rows), size):
        yield rows.slice(start, min(start + size, len(rows)))


def merged_table(runs: Sequence[KeyValues], engine: MergeEngine, batch: int, window: int) -> dict[str, list[object]]:
    windows = list(merge_runs([cut(run, batch) for run in runs], FIELDS[:1], engine, window))
    return concat(windows).values.to_pydict() if windows else {}


@pytest.mark.parametrize("batch", [1, 2, 100])
@pytest.mark.parametrize("window", [1, 3, 100])
def test_the_later_run_wins(batch: int, window: int) -> None:
    runs = [run_of([1, 4, 7, 9], 0, "old"), run_of([2, 4, 6], 1), run_of([3, 4, 8, 9], 2)]
    assert merged_table(runs, PARTIAL, batch, window) == {
        "k": [1, 2, 3, 4, 6, 7, 8, 9],
        "v": [0, 1, 2, 2, 1, 0, 2, 2],
        "w": ["old", None, None, "old", None, "old", None, "old"],
    }


def test_no_runs_and_empty_runs() -> None:
    assert merged_table([], DEDUPLICATE, 1, 1) == {}
    assert merged_table([run_of([], 0), run_of([], 1)], DEDUPLICATE, 1, 1) == {}
    assert merged_table([run_of([], 0), run_of([5], 1)], DEDUPLICATE, 1, 1)["k"] == [5]


def test_string_keys_that_share_prefixes() -> None:
    fields = fields_of(k="STRING NOT NULL", v="INT")
    engine = engine_of({}, fields)
    texts = ["", "a", "a\0", "a\0b", "aa", "ab", "b" * 70, "é", "\U0001f600"]

    def run(number: int, members: list[str]) -> Iterator[KeyValues]:
        for text in members:
            yield KeyValues(pa.table({"k": [text], "v": pa.array([number], pa.int32())}))

    rows = concat(list(merge_runs([run(0, texts[::2]), run(1, texts[1::2] + texts[-1:])], fields[:1], engine, 2)))
    assert rows.values["k"].to_pylist() == texts
    assert rows.values["v"].to_pylist() == [0, 1, 0, 1, 0, 1, 0, 1, 1]


def test_composite_keys() -> None:
    fields = fields_of(a="STRING NOT NULL", b="BIGINT NOT NULL", v="INT")
    engine = engine_of({}, fields, ["a", "b"])
    pairs = [(a, b) for a in ("x", "xy", "y") for b in (-5, 0, 300)]

    def run(number: int, members: list[tuple[str, int]]) -> Iterator[KeyValues]:
        for a, b in members:
            yield KeyValues(pa.table({"a": [a], "b": [b], "v": pa.array([number], pa.int32())}))

    rows = concat(list(merge_runs([run(0, pairs), run(1, pairs[::3])], fields[:2], engine, 2)))
    assert list(zip(rows.values["a"].to_pylist(), rows.values["b"].to_pylist(), strict=True)) == pairs
    assert rows.values["v"].to_pylist() == [1, 0, 0] * 3


def test_memory_is_bounded_by_the_window() -> None:
    """No run is ever read further ahead of the output than the window and one batch."""
    count, batch, window = 10_000, 50, 200
    pulled = [0, 0, 0]

    def counted(number: int) -> Iterator[KeyValues]:
        for part in cut(run_of(np.arange(count) * 3 + number, number), batch):
            pulled[number] += len(part)
            yield part

    emitted = 0
    for rows in merge_runs([counted(n) for n in range(3)], FIELDS[:1], DEDUPLICATE, window):
        assert len(rows) <= 3 * (window + batch)
        emitted += len(rows)
        assert sum(pulled) - emitted <= 3 * (window + batch)
    assert emitted == 3 * count


def test_wide_rows_make_windows_of_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.merge.sorted_merge.WINDOW_BYTES", 1000)
    runs = [run_of(range(200), 0, "x" * 100), run_of(range(100, 300), 1, "y" * 100)]
    windows = list(merge_runs([cut(run, 4) for run in runs], FIELDS[:1], DEDUPLICATE, 1000))
    assert max(len(rows) for rows in windows) <= 24
    rows = concat(windows).values
    assert rows["k"].to_pylist() == list(range(300))
    assert rows["v"].to_pylist() == [0] * 100 + [1] * 200


def test_a_short_run_beside_a_long_one() -> None:
    long, short = run_of(np.arange(0, 5000), 0), run_of(np.arange(0, 5000, 500), 1)
    table = merged_table([long, short], DEDUPLICATE, 64, 128)
    assert table["k"] == list(range(5000))
    assert table["v"] == [1 if k % 500 == 0 else 0 for k in range(5000)]


def test_a_run_that_is_all_there_does_not_bound_a_window() -> None:
    runs = [run_of(range(100), 0), run_of(range(5), 1), run_of(range(0, 100, 7), 2)]
    windows = list(merge_runs([cut(run, 20) for run in runs], FIELDS[:1], DEDUPLICATE, 50))
    assert [rows.values["k"][-1].as_py() for rows in windows] == [59, 99]


def test_a_run_that_overlaps_no_other_passes_through_uncopied() -> None:
    low, high = run_of(range(100), 0), run_of(range(100, 200), 1)
    windows = list(merge_runs([cut(high, 100), cut(low, 100)], FIELDS[:1], DEDUPLICATE, 10))
    addresses = {rows.values["k"].chunk(0).buffers()[1].address for rows in windows}
    assert addresses == {run.values["k"].chunk(0).buffers()[1].address for run in (low, high)}
    assert concat(windows).values["k"].to_pylist() == list(range(200))


def test_sequence_numbers_decide_across_runs_in_any_order() -> None:
    old = run_of([1, 2], 0).with_sequence(np.array([1, 9]))
    new = run_of([1, 2], 1).with_sequence(np.array([5, 6]))
    for runs in ([old, new], [new, old]):
        (rows,) = merge_runs([iter([run]) for run in runs], FIELDS[:1], DEDUPLICATE)
        assert rows.values["v"].to_pylist() == [1, 0]
        assert rows.sequence is not None
        assert rows.sequence.tolist() == [5, 9]


def test_nothing_is_emitted_for_a_window_of_dropped_keys() -> None:
    engine = engine_of({"ignore-delete": "true"}, FIELDS)
    deletes = [KeyValues(run_of([1, 2], v).values, None, np.array([3, 3], np.int8)) for v in range(2)]
    assert list(merge_runs([iter([rows]) for rows in deletes], FIELDS[:1], engine)) == []


def test_fold_takes_any_sortable_keys() -> None:
    """A caller may put its own number before the key, such as that of a bucket."""
    rows = concat([run_of([1, 2], 0), run_of([1, 2], 1)])
    bucket = np.array([1, 0, 1, 1])
    keys = bucket << 32 | keys_of(rows)
    folded = fold(keys, rows, DEDUPLICATE)
    assert folded.values.select(["k", "v"]).to_pylist() == [{"k": 2, "v": 0}, {"k": 1, "v": 1}, {"k": 2, "v": 1}]


def test_only_keys_in_the_wrong_order_of_age_are_moved() -> None:
    rows = run_of([2, 1, 1, 2, 1], 0).with_sequence(np.array([8, 3, 1, 9, 2]))
    groups = group_rows(keys_of(rows), rows)
    assert groups.order.tolist() == [2, 4, 1, 0, 3]
    assert groups.starts.tolist() == [0, 3]
