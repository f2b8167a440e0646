"""The partial-update engine, by worked examples."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput
from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.engine import MergeEngine
from paimon_spark.merge.sorted_merge import fold
from paimon_spark.types import DataField
from tests.merge.records import engine_of, fields_of, fold_records, keys_of, parse_records, show_records

PLAIN = fields_of(k="BIGINT NOT NULL", x="STRING", y="INT")
ONE_GROUP = fields_of(k="BIGINT NOT NULL", s="INT", v="STRING")
TWO_GROUPS = fields_of(k="BIGINT NOT NULL", a="STRING", g1="INT", b="STRING", g2="INT", free="STRING")
COMPOSITE = fields_of(k="BIGINT NOT NULL", g1="INT", g2="INT", v="STRING")

REMOVE = {"partial-update.remove-record-on-delete": "true"}
IGNORE = {"ignore-delete": "true"}
GROUPED = {"fields.s.sequence-group": "v"}
GROUPED_TWICE = {"fields.g1.sequence-group": "a", "fields.g2.sequence-group": "b"}
REMOVE_BY_G1 = {**GROUPED_TWICE, "partial-update.remove-record-on-sequence-group": "g1"}
REMOVE_BY_BOTH = {**GROUPED_TWICE, "partial-update.remove-record-on-sequence-group": "g1,g2"}
REMOVE_BY_S = {**GROUPED, "partial-update.remove-record-on-sequence-group": "s"}
GROUPED_BY_TWO = {"fields.g1,g2.sequence-group": "v"}


def engine(fields: tuple[DataField, ...], options: dict[str, str]) -> MergeEngine:
    return engine_of({"merge-engine": "partial-update", **options}, fields)


def folded(fields: tuple[DataField, ...], options: dict[str, str], *records: str) -> list[str]:
    return show_records(fold_records(engine(fields, options), parse_records(fields, *records), fields))


@pytest.mark.parametrize(
    ("options", "records", "expected"),
    [
        ({}, ["+I 7 x 1", "+I 7 _ 2"], "+I 7 x 2"),
        ({}, ["+I 7 x _", "+I 7 _ 2", "+I 7 _ _"], "+I 7 x 2"),
        ({}, ["+I 7 _ _", "+I 7 _ _"], "+I 7 _ _"),
        ({}, ["+U 7 x 1", "+U 7 y _"], "+I 7 y 1"),
        ({}, ["-D 7 x 1"], "-D 7 x 1"),
        ({"sequence.field": "y"}, ["+I 7 new 5", "+I 7 old 3", "+I 7 older _"], "+I 7 new 5"),
        ({"sequence.field": "y"}, ["+I 7 _ 5", "+I 7 old 3"], "+I 7 old 5"),
        (REMOVE, ["+I 7 x 10", "-D 7 x 10"], "-D 7 x 10"),
        (REMOVE, ["+I 7 x 10", "-D 7 x 10", "+I 7 _ 20"], "+I 7 x 20"),
        (REMOVE, ["+I 7 x 10", "-D 7 _ _", "+I 7 _ 20"], "+I 7 _ 20"),
        (REMOVE, ["+I 7 x 1", "-U 7 x 1", "+U 7 _ 2"], "+I 7 x 2"),
        (REMOVE, ["-U 7 x 1", "-U 7 x 1"], "-D 7 x 1"),
        (REMOVE, ["+I 7 x 1", "-D 7 z 3", "-U 7 q 4"], "+I 7 z 3"),
        (IGNORE, ["-D 7 x 1", "+I 7 y _"], "+I 7 y 1"),
        (IGNORE, ["+I 7 x 1", "-D 7 z 3", "+I 7 y _"], "+I 7 y 1"),
        (IGNORE, ["-D 7 x _", "-D 7 z 3"], "-D 7 x _"),
    ],
)
def test_without_groups(options: dict[str, str], records: list[str], expected: str) -> None:
    assert folded(PLAIN, options, *records) == [expected]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (["+I 1 2 a", "+I 1 1 b"], "+I 1 2 a"),
        (["+I 1 2 a", "+I 1 2 _"], "+I 1 2 _"),
        (["+I 1 2 a", "+I 1 _ b"], "+I 1 2 a"),
        (["+I 1 2 a", "-D 1 3 zz"], "+I 1 3 _"),
        (["+I 1 2 a", "-D 1 1 zz"], "+I 1 2 a"),
        (["+I 1 2 a", "-U 1 2 zz"], "+I 1 2 _"),
        (["-D 7 5 p"], "-D 7 5 p"),
        (["-D 7 5 p", "-D 7 5 p"], "-D 7 5 _"),
        (["-D 7 5 p", "+I 7 4 q"], "+I 7 5 _"),
        (["-D 7 5 p", "+I 7 6 r"], "+I 7 6 r"),
        (["-D 7 _ p", "+I 7 _ r"], "+I 7 _ p"),
        (["+I 7 _ p", "+I 7 _ r"], "+I 7 _ _"),
    ],
)
def test_one_group(records: list[str], expected: str) -> None:
    assert folded(ONE_GROUP, GROUPED, *records) == [expected]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (["-D 7 5 p", "+I 7 4 q"], "+I 7 5 p"),
        (["+I 7 5 p", "-D 7 6 q", "+I 7 5 r"], "+I 7 5 r"),
        (["-D 7 _ p", "-D 7 3 q"], "-D 7 _ p"),
    ],
)
def test_one_group_with_ignore_delete(records: list[str], expected: str) -> None:
    assert folded(ONE_GROUP, GROUPED | IGNORE, *records) == [expected]


@pytest.mark.parametrize(
    ("options", "records", "expected"),
    [
        (GROUPED_TWICE, ["+I 7 A 10 B 10 f", "-D 7 zz 12 zz _ zz"], "+I 7 _ 12 B 10 f"),
        (
            GROUPED_TWICE,
            ["+I 7 A 10 B 10 f", "-D 7 zz 12 zz _ zz", "+I 7 old 11 B2 15 _"],
            "+I 7 _ 12 B2 15 f",
        ),
        (
            GROUPED_TWICE,
            ["+I 7 A 10 B 10 f", "-D 7 zz 12 zz _ zz", "+I 7 old 11 B2 15 _", "+I 7 A3 12 _ _ _"],
            "+I 7 A3 12 B2 15 f",
        ),
        (REMOVE_BY_G1, ["+I 7 A 10 B 10 f", "-D 7 _ 9 _ 10 _"], "+I 7 A 10 _ 10 f"),
        (REMOVE_BY_G1, ["+I 7 A 10 B 10 f", "-D 7 _ 9 _ 10 _", "-D 7 A 10 _ _ f2"], "-D 7 A 10 _ _ f2"),
        (
            REMOVE_BY_G1,
            ["+I 7 A 10 B 10 f", "-D 7 _ 9 _ 10 _", "-D 7 A 10 _ _ f2", "+I 7 A9 11 _ _ _"],
            "+I 7 A9 11 _ _ f2",
        ),
        (REMOVE_BY_G1, ["+I 7 A 10 B 10 f", "-U 7 _ 11 _ _ _"], "+I 7 _ 11 B 10 f"),
    ],
)
def test_two_groups(options: dict[str, str], records: list[str], expected: str) -> None:
    assert folded(TWO_GROUPS, options, *records) == [expected]


def test_a_removal_through_one_group_lowers_the_tuple_of_another() -> None:
    # The second delete is older than the first add in g2, but the first delete took g2 back to 5.
    records = ["+I 7 A 10 B 10 f", "-D 7 _ 11 C 5 _", "-D 7 D _ E 6 g"]
    assert folded(TWO_GROUPS, REMOVE_BY_BOTH, *records) == ["-D 7 D _ E 6 g"]
    assert folded(TWO_GROUPS, REMOVE_BY_BOTH, records[0], records[2]) == ["+I 7 A 10 B 10 f"]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (["-D 7 5 p", "+I 7 4 q"], "+I 7 5 p"),
        (["-D 7 5 p", "-U 7 5 q"], "-D 7 5 _"),
        (["+I 7 5 p", "-D 7 6 q", "-D 7 5 r"], "+I 7 6 q"),
    ],
)
def test_a_removing_delete_keeps_its_values(records: list[str], expected: str) -> None:
    assert folded(ONE_GROUP, REMOVE_BY_S, *records) == [expected]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("+I 1 2 _ b", "+I 1 2 1 a"),
        ("+I 1 2 2 c", "+I 1 2 2 c"),
        ("+I 1 _ 9 d", "+I 1 2 1 a"),
        ("+I 1 3 _ e", "+I 1 3 _ e"),
        ("-D 1 3 _ e", "+I 1 3 _ _"),
        ("+I 1 _ _ e", "+I 1 2 1 a"),
    ],
)
def test_tuples_of_two_columns(record: str, expected: str) -> None:
    assert folded(COMPOSITE, GROUPED_BY_TWO, "+I 1 2 1 a", record) == [expected]


def test_lone_and_several_records_side_by_side() -> None:
    records = ["-D 1 a 1", "+U 2 a 1", "+I 3 a _", "+I 5 e 5", "+I 3 _ 3", "-U 4 d 4"]
    assert folded(PLAIN, {}, *records) == ["-D 1 a 1", "+U 2 a 1", "+I 3 a 3", "-U 4 d 4", "+I 5 e 5"]


@pytest.mark.parametrize(
    ("options", "records", "sequence"),
    [
        ({}, ["+I 7 x 1", "+I 7 y 2"], 2),
        ({"sequence.field": "y"}, ["+I 7 x 9", "+I 7 y 2"], 1),
        (IGNORE, ["+I 7 x 1", "+I 7 x 1", "-D 7 y 2"], 2),
        (IGNORE, ["-D 7 x 1", "-D 7 y 2"], 0),
        (REMOVE, ["+I 7 x 1", "-U 7 y 2"], 2),
    ],
)
def test_the_sequence_number_is_that_of_the_last_record_that_counted(
    options: dict[str, str], records: list[str], sequence: int
) -> None:
    (merged,) = fold_records(engine(PLAIN, options), parse_records(PLAIN, *records), PLAIN)
    assert merged.sequence == sequence


def test_values_behind_many_nulls_are_found() -> None:
    count = 100
    x = ["first", *[None] * (count - 1)]
    y = [None] * (count // 2) + [1] + [None] * (count // 2 - 1)
    rows = KeyValues(pa.table({"k": [1] * count + [2], "x": [*x, None], "y": pa.array([*y, 5], pa.int32())}))
    merged = fold(keys_of(rows), rows, engine(PLAIN, {}))
    assert merged.values.to_pydict() == {"k": [1, 2], "x": ["first", None], "y": [1, 5]}
    assert merged.sequence is None
    assert merged.kind is None


@pytest.mark.parametrize("kind", ["-D", "-U"])
def test_a_retract_without_a_rule_is_refused_with_the_remedies(kind: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        folded(PLAIN, {}, "+I 7 x 1", f"{kind} 7 x 1")
    for remedy in (kind, "ignore-delete", "partial-update.remove-record-on-delete", "sequence-group"):
        assert remedy in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "records"),
    [
        ({}, ["+I 7 x 1", "+I 7 _ 1"]),
        (REMOVE, ["+I 7 x 1", "-D 7 _ 1", "-D 7 x 1"]),
        (IGNORE, ["-D 7 _ 1", "+I 7 x 1"]),
        ({"fields.y.sequence-group": "x"}, ["-U 7 _ 1", "+I 7 x 1"]),
    ],
)
def test_a_null_in_a_not_null_column_is_refused(options: dict[str, str], records: list[str]) -> None:
    fields = fields_of(k="BIGINT NOT NULL", x="STRING NOT NULL", y="INT")
    with pytest.raises(InvalidInput, match="'x'"):
        folded(fields, options, *records)


@pytest.mark.parametrize(
    ("options", "records"),
    [
        ({}, ["+I 7 _ 1"]),
        (REMOVE, ["+I 7 x 1", "-U 7 _ 1"]),
        (IGNORE, ["+I 7 x 1", "-D 7 _ 1"]),
    ],
)
def test_a_null_that_no_row_takes_over_is_not_refused(options: dict[str, str], records: list[str]) -> None:
    fields = fields_of(k="BIGINT NOT NULL", x="STRING NOT NULL", y="INT")
    assert len(folded(fields, options, *records)) == 1


def test_columns_that_a_merge_needs() -> None:
    required = engine(TWO_GROUPS, GROUPED_TWICE).required_columns
    assert required(["free"]) == {"free"}
    assert required(["a"]) == {"a", "g1"}
    assert required(["g2"]) == {"g2"}
    assert engine(TWO_GROUPS, REMOVE_BY_G1).required_columns(["free"]) == {"free", "g1"}
    assert engine(TWO_GROUPS, GROUPED_TWICE | {"sequence.field": "b"}).required_columns([]) == {"b", "g2"}
    assert engine(COMPOSITE, GROUPED_BY_TWO).required_columns(["v"]) == {"v", "g1", "g2"}


def test_a_removing_delete_empties_columns_of_a_projection() -> None:
    rows = KeyValues(
        pa.table({"k": [7, 7], "g1": pa.array([1, 2], pa.int32()), "free": ["x", None]}),
        np.arange(2),
        np.array([0, 3], np.int8),
    )
    merged = fold(keys_of(rows), rows, engine(TWO_GROUPS, REMOVE_BY_G1))
    assert merged.values.to_pylist() == [{"k": 7, "g1": 2, "free": None}]


def test_an_engine_travels_between_processes() -> None:
    sent = engine(TWO_GROUPS, REMOVE_BY_G1 | {"sequence.field": "free"})
    assert pickle.loads(pickle.dumps(sent)) == sent
