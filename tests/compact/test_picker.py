"""The picker: every rule as text, and what holds of any unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.compact.levels import Levels
from paimon_spark.compact.picker import CompactionUnit, PickerState, needs_lookup, pick, pick_full
from paimon_spark.errors import InvalidOption
from paimon_spark.options import COMPACTION_TRIGGER, Options
from tests.compact.buckets import OPTIONS
from tests.compact.script import KEY_TYPES, MIDNIGHT, Question, answer, made_up_file, questions_of

RULES = [q for name in ("size_rules", "early_full", "level_0") for q in questions_of(name)]
STATE = PickerState(MIDNIGHT)
DEFAULTS = Options()


@pytest.mark.parametrize("question", RULES, ids=lambda q: q.place)
def test_rules(question: Question) -> None:
    assert answer(question.bucket, question.text) == question.expected


@st.composite
def buckets(draw: st.DrawFn, options: Options) -> Levels:
    """A bucket with any number of runs, of any sizes, at any levels."""
    sizes = draw(st.lists(st.integers(1, 10_000), max_size=8))
    upper = draw(st.dictionaries(st.integers(1, options.num_levels - 1), st.integers(1, 1_000_000)))
    files = [made_up_file(f"n{i}", 0, size, sequence=i) for i, size in enumerate(sizes)]
    files += [made_up_file(f"u{level}", level, size) for level, size in upper.items()]
    return Levels.of(files, options, KEY_TYPES)


@given(st.data(), OPTIONS)
def test_a_unit_is_some_first_runs_and_goes_right_below_what_stays(data: st.DataObject, options: Options) -> None:
    levels = data.draw(buckets(options))
    unit = pick(levels, options, STATE, needs_lookup(options))
    if unit is None:
        assert len(levels.runs) <= options.get_option(COMPACTION_TRIGGER)
        return
    assert unit.files == levels.files[: len(unit.files)]
    assert len(unit.files) > 1 or unit.files[0].level != unit.output_level
    assert not unit.rewrite_each
    assert set(levels.level(0) + levels.level(1)) <= set(unit.files)
    staying = levels.files[len(unit.files) :]
    assert unit.output_level == (staying[0].level - 1 if staying else levels.max_level)
    assert unit.output_level >= max(1, *(file.level for file in unit.files))


@given(st.data(), OPTIONS)
def test_a_full_compaction_takes_all_runs(data: st.DataObject, options: Options) -> None:
    levels = data.draw(buckets(options))
    unit = pick_full(levels, options, lambda name: False)
    if unit is None:
        assert [run.level for run in levels.runs] in ([], [levels.max_level])
    else:
        assert unit == CompactionUnit(levels.max_level, levels.files, "full")


def test_a_new_picker_takes_the_newest_file_of_the_highest_level_for_the_last_full_compaction() -> None:
    old, new = (made_up_file(n, 5, 1, k, k, creation_millis=t) for n, k, t in (("a", 0, 10), ("b", 1, 30)))
    unknown = made_up_file("c", 5, 1, 2, 2, creation_millis=None)
    below = made_up_file("d", 4, creation_millis=90)
    assert PickerState.of(Levels.of([new, old, unknown, below], DEFAULTS, KEY_TYPES), 99) == PickerState(99, 30)
    assert PickerState.of(Levels.of([unknown, below], DEFAULTS, KEY_TYPES), 99) == PickerState(99, None)


def test_the_state_after_a_pick() -> None:
    levels = Levels.of([made_up_file("a", 0), made_up_file("b", 5)], DEFAULTS, KEY_TYPES)
    state = PickerState(100, 50, 3)
    some, everything = levels.files[:1], levels.files
    assert state.after(None, levels, 200) == PickerState(200, 50, 4)
    assert state.after(CompactionUnit(4, some, "level 0"), levels, 200) == PickerState(200, 50, 0)
    assert state.after(CompactionUnit(4, some, "size ratio"), levels, 200) == PickerState(200, 50, 3)
    assert state.after(CompactionUnit(5, everything, "size ratio"), levels, 200) == PickerState(200, 100, 3)
    assert state.after(CompactionUnit(5, everything, "level 0"), levels, 200) == PickerState(200, 100, 0)


def test_the_hour_is_that_of_the_local_clock() -> None:
    assert [PickerState(MIDNIGHT + millis).hour for millis in (0, 3_599_999, 3_600_000, 86_399_999)] == [0, 0, 1, 23]


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("compaction.max-size-amplification-percent", "-1", "a whole number of at least 0"),
        ("compaction.size-ratio", "1.5", "a whole number of at least 0"),
        ("compaction.offpeak.start.hour", "24", "a whole number from -1 to 23"),
        ("compaction.offpeak.end.hour", "late", "a whole number from -1 to 24"),
        ("compaction.total-size-threshold", "much", "a size"),
        ("compaction.optimization-interval", "often", "a duration"),
        ("lookup-compact", "rough", "'radical' or 'gentle'"),
    ],
)
def test_a_bad_option_is_named(option: str, value: str, wanted: str) -> None:
    options = Options({option: value, "num-sorted-run.compaction-trigger": "2", "num-levels": "6"})
    levels = Levels.of([made_up_file("a", 0), made_up_file("b", 3, 9), made_up_file("c", 5, 99)], options, KEY_TYPES)
    with pytest.raises(InvalidOption, match=f"{option}.*{wanted}"):
        pick(levels.apply(levels.level(3), []), options, STATE, lookup=True)
