"""Levels: runs and their order, and what a compaction changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_spark.compact.levels import Levels
from paimon_spark.errors import CorruptFile, InvalidOption
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.options import Options
from paimon_spark.rows.binary_row import serialize
from paimon_spark.types import parse_type
from tests.compact.script import KEY_TYPES, made_up_file

DEFAULTS = Options()


def levels_of(*files: DataFile) -> Levels:
    return Levels.of(files, DEFAULTS, KEY_TYPES)


def names(files: tuple[DataFile, ...]) -> str:
    return " ".join(file.name for file in files)


def shape(levels: Levels) -> list[tuple[int, str]]:
    return [(run.level, names(run.files)) for run in levels.runs]


def test_level_0_is_a_run_per_file_from_the_newest_to_the_oldest() -> None:
    def same_but(name: str, **fields: int) -> DataFile:
        return made_up_file(name, 0, **{"min_sequence": 1, "max_sequence": 5, "creation_millis": 7, **fields})

    files = (
        same_but("a", max_sequence=3),
        same_but("f", creation_millis=8),
        same_but("e"),
        same_but("d"),
        same_but("c", min_sequence=0, creation_millis=9),
        same_but("b", max_sequence=6),
    )
    assert shape(levels_of(*files)) == [(0, "b"), (0, "c"), (0, "d"), (0, "e"), (0, "f"), (0, "a")]
    assert names(levels_of(*files).level(0)) == "b c d e f a"


def test_other_levels_are_one_run_each_in_key_order() -> None:
    levels = levels_of(
        made_up_file("z", 5, 8, 0, 99),
        made_up_file("b", 2, 4, 5, 6),
        made_up_file("a", 2, 2, 7, 300),
        made_up_file("c", 2, 1, -9, 4),
        made_up_file("n", 0, 1, 0, 99),
    )
    assert shape(levels) == [(0, "n"), (2, "c b a"), (5, "z")]
    assert [run.size for run in levels.runs] == [1, 7, 8]
    assert names(levels.files) == "n c b a z"
    assert names(levels.level(2)) == "c b a"
    assert levels.level(3) == ()
    assert levels.highest_nonempty == 5


def test_keys_of_several_columns() -> None:
    types = (parse_type("STRING"), parse_type("INT"))
    bounds = serialize([pa.array(["a", "a", "b", "é"]), pa.array([2, 10, -1, 0], pa.int32())], list(types))
    first = made_up_file("first", 1, min_key=bounds[0], max_key=bounds[1])
    second = made_up_file("second", 1, min_key=bounds[2], max_key=bounds[3])
    assert shape(Levels.of((second, first), DEFAULTS, types)) == [(1, "first second")]


def test_an_empty_bucket() -> None:
    levels = levels_of()
    assert (levels.runs, levels.files, levels.highest_nonempty, levels.max_level) == ((), (), -1, 5)


@pytest.mark.parametrize(
    ("options", "highest_file", "number"),
    [
        ({}, 0, 6),
        ({"num-sorted-run.compaction-trigger": "3"}, 0, 4),
        ({"num-sorted-run.compaction-trigger": "3", "num-levels": "7"}, 0, 7),
        ({"num-levels": "3"}, 4, 5),
    ],
)
def test_there_are_as_many_levels_as_the_table_or_its_files_want(
    options: dict[str, str], highest_file: int, number: int
) -> None:
    levels = Levels.of([made_up_file("a", highest_file)], Options(options), KEY_TYPES)
    assert (levels.number, levels.max_level) == (number, number - 1)


def test_one_level_is_no_tree() -> None:
    with pytest.raises(InvalidOption, match=r"'num-levels': 1 levels are too few"):
        Levels.of([], Options({"num-levels": "1"}), KEY_TYPES)


def test_files_of_a_level_must_not_even_touch() -> None:
    left, right = made_up_file("left", 3, 1, 0, 5), made_up_file("right", 3, 1, 5, 9)
    with pytest.raises(CorruptFile, match=r"right: its keys overlap those of left, although both are at level 3"):
        levels_of(right, left)
    levels_of(right.at_level(4), left)


def test_a_broken_key_bound_is_corrupt() -> None:
    with pytest.raises(CorruptFile):
        levels_of(made_up_file("a", 1, min_key=b"\0\0\0\1"))


def test_apply_takes_out_puts_in_and_moves_up() -> None:
    new, moving = made_up_file("new", 0, sequence=9), made_up_file("moving", 0, 1, 20, 29)
    old, staying = made_up_file("old", 4, 1, 0, 9), made_up_file("staying", 4, 1, 30, 39)
    before = levels_of(new, moving, old, staying)
    after = before.apply([new, moving, old], [made_up_file("merged", 4), moving.at_level(4)])
    assert shape(after) == [(4, "merged moving staying")]
    assert shape(before) == [(0, "new"), (0, "moving"), (4, "old staying")]
    assert after.number == 6
    assert shape(after.apply(after.files, [])) == []


def test_apply_checks_the_new_levels() -> None:
    levels = levels_of(made_up_file("a", 2, 1, 0, 9))
    with pytest.raises(CorruptFile, match="level 2"):
        levels.apply([], [made_up_file("b", 2, 1, 3, 4)])
    assert levels.apply([], [made_up_file("b", 8)]).max_level == 8
