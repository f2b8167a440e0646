"""Plans: every rule as text, what holds of any plan, and random buckets compacted until nothing is left to do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.compact.levels import Levels
from paimon_spark.compact.picker import CompactionUnit, PickerState, needs_lookup, pick, pick_full
from paimon_spark.compact.task import CompactionPlan, Rewrite, plan_task
from paimon_spark.errors import CorruptFile, InvalidOption
from paimon_spark.options import COMPACTION_TRIGGER, DELETION_VECTORS, Options
from tests.compact.buckets import FLUSHES, OPTIONS, empty, executed, flushed, greatest, least
from tests.compact.script import KEY_TYPES, MIDNIGHT, Question, answer, made_up_file, questions_of

RULES = [q for name in ("sections", "deletes", "lookups", "full") for q in questions_of(name)]


@pytest.mark.parametrize("question", RULES, ids=lambda q: q.place)
def test_rules(question: Question) -> None:
    assert answer(question.bucket, question.text) == question.expected


def compacted(levels: Levels, unit: CompactionUnit, options: Options, number: int) -> Levels:
    """The levels after a unit was planned, checked and executed."""
    plan = plan_task(unit, levels, options, needs_lookup(options))
    check(plan, unit, levels, options)
    return levels.apply(*executed(plan, number))


def check(plan: CompactionPlan, unit: CompactionUnit, levels: Levels, options: Options) -> None:
    """What holds of any plan."""
    planned = Counter(file.name for file in (*plan.rewritten, *plan.upgraded, *plan.kept))
    assert planned == Counter(file.name for file in unit.files)
    assert plan.output_level == unit.output_level
    assert all(file.level == plan.output_level for file in plan.kept)
    assert all(file.level != plan.output_level for file in plan.upgraded)
    for before, after in pairwise(plan.steps):
        assert max(map(greatest, before.files)) < min(map(least, after.files))
    vectors = options.get_option(DELETION_VECTORS)
    for step in plan.steps:
        assert not step.lookup or any(file.level == 0 for file in step.files)
        if isinstance(step, Rewrite):
            check_sections(step)
            continue
        file = step.file
        assert file.delete_row_count == 0 or plan.output_level < levels.max_level
        if vectors and file.level == 0:
            assert file.delete_row_count == 0
            assert step.lookup == (plan.output_level < levels.max_level)
    assert plan.drop_delete == (vectors or len(unit.files) == len(levels.files))


def check_sections(step: Rewrite) -> None:
    for section in step.sections:
        for run in section:
            for left, right in pairwise(run):
                assert greatest(left) < least(right)
    for before, after in pairwise(step.sections):
        assert max(greatest(f) for run in before for f in run) < min(least(f) for run in after for f in run)


@given(FLUSHES, OPTIONS)
def test_picks_end_with_few_runs_and_levels_stay_in_order(
    flushes: list[tuple[tuple[int, int], int, int | None]], options: Options
) -> None:
    """``Levels.apply`` refuses levels that overlap, so this also holds that no plan makes such."""
    levels, lookup = empty(options), needs_lookup(options)
    number = 0
    for number, (bounds, size, deletes) in enumerate(flushes, start=1):
        levels = flushed(levels, number, bounds, size, deletes)
        for attempt in range(10):
            unit = pick(levels, options, PickerState(MIDNIGHT), lookup)
            if unit is None:
                break
            levels = compacted(levels, unit, options, 100 * number + attempt)
        assert unit is None
        assert len(levels.runs) <= options.get_option(COMPACTION_TRIGGER)
        assert not (lookup and levels.level(0))
    unit = pick_full(levels, options, lambda name: False)
    if unit is not None:
        levels = compacted(levels, unit, options, 100 * (number + 1))
    assert [run.level for run in levels.runs] == [levels.max_level]
    assert pick_full(levels, options, lambda name: False) is None


@given(FLUSHES, OPTIONS, st.data())
def test_any_full_compaction_of_many_runs(
    flushes: list[tuple[tuple[int, int], int, int | None]], options: Options, data: st.DataObject
) -> None:
    levels = empty(options)
    for number, (bounds, size, deletes) in enumerate(flushes, start=1):
        levels = flushed(levels, number, bounds, size, deletes)
        if data.draw(st.integers(0, 4)) == 0:
            unit = pick(levels, options, PickerState(MIDNIGHT), lookup=True)
            levels = levels if unit is None else compacted(levels, unit, options, 100 * number)
    unit = pick_full(levels, options, lambda name: False)
    after = levels if unit is None else compacted(levels, unit, options, 100_000)
    assert [run.level for run in after.runs] == [after.max_level]
    assert all(file.delete_row_count == 0 for file in after.files) or unit is None


def test_a_file_rewrite_plan_rewrites_each_marked_file_alone() -> None:
    levels = Levels.of([made_up_file(n, 5, 1, k, k) for k, n in enumerate("abcd")], Options(), KEY_TYPES)
    unit = pick_full(levels, Options(), {"b", "d"}.__contains__)
    assert unit is not None
    plan = plan_task(unit, levels, Options(), lookup=True)
    b, d = unit.files
    assert plan == CompactionPlan(5, True, (Rewrite((((b,),),), False), Rewrite((((d,),),), False)), ())


def test_a_bad_small_file_ratio_is_named() -> None:
    levels = Levels.of([made_up_file("a", 0)], Options(), KEY_TYPES)
    unit = CompactionUnit(5, levels.files, "full")
    for value in ("-0.1", "1.1", "nan", "most"):
        with pytest.raises(InvalidOption, match=r"compaction\.small-file-ratio.*from 0 to 1"):
            plan_task(unit, levels, Options({"compaction.small-file-ratio": value}), lookup=False)


def test_a_key_bound_that_is_no_key() -> None:
    broken = made_up_file("a", 0, min_key=b"\0\0\0\1")
    levels = Levels.of([broken], Options(), KEY_TYPES)
    with pytest.raises(CorruptFile):
        plan_task(CompactionUnit(5, levels.files, "full"), levels, Options(), lookup=False)
