"""Rules for new tables: each has a definition that breaks it, and the message names what to change."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, InvalidOption
from paimon_spark.metadata.schema import TableSchema, new_table_schema
from paimon_spark.metadata.validation import validate_new_table
from paimon_spark.types import fields_from_arrow
from tests.metadata.tables import newest_schema, table_directories

COLUMNS = {
    "k": pa.int32(),
    "p": pa.string(),
    "a": pa.string(),
    "b": pa.float64(),
    "g": pa.int64(),
    "h": pa.int64(),
    "op": pa.string(),
    "arr": pa.list_(pa.int32()),
}


def define(
    options: dict[str, str] | None = None,
    primary: tuple[str, ...] = ("k",),
    partition: tuple[str, ...] = (),
    columns: dict[str, pa.DataType] | None = None,
) -> TableSchema:
    """A definition that is right unless the test makes it wrong."""
    fields, highest = fields_from_arrow(pa.schema(list((columns or COLUMNS).items())))
    return new_table_schema(fields, highest, primary, partition, options or {}, None, 0)


def partial_update(**options: str) -> dict[str, str]:
    """Options of a partial-update table; double underscores stand for dots, single ones for hyphens."""
    renamed = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return {"merge-engine": "partial-update", **renamed}


def test_what_java_created_is_valid(golden: Path) -> None:
    for table in table_directories(golden):
        validate_new_table(newest_schema(table))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket": "4", "bucket-key": "k"},
        {"sequence.field": "g,h"},
        {"rowkind.field": "op"},
        {"some.option.of.another.engine": "x"},
        {"fields.a.stats-mode": "none", "metadata.stats-mode": "truncate(8)"},
        {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "5"},
        {"snapshot.num-retained.min": "2", "changelog.num-retained.max": "5"},
        {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
        partial_update(fields__g__sequence_group="a,b"),
        {**partial_update(fields__g__sequence_group="a,b"), "partial-update.remove-record-on-sequence-group": "g"},
        {**partial_update(fields__g__sequence_group="b"), "fields.b.aggregate-function": "sum"},
        {"merge-engine": "partial-update", "fields.a.aggregate-function": "last_non_null_value"},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    ],
)
def test_good_definitions_pass(options: dict[str, str]) -> None:
    validate_new_table(define(options))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (define(columns={**COLUMNS, "_KEY_x": pa.int8()}), "column '_KEY_x' has the name of a system column"),
        (define(columns={**COLUMNS, "_VALUE_KIND": pa.int8()}), "'_VALUE_KIND'"),
        (define(columns={**COLUMNS, "rowkind": pa.string()}), "'rowkind'"),
        (define(columns={**COLUMNS, " ": pa.int8()}), "a column is named ' '"),
        (define(columns={**COLUMNS, "d": pa.decimal128(5, -2)}), r"column 'd': DECIMAL\(5, -2\)"),
        (define(columns={**COLUMNS, "d": pa.list_(pa.decimal128(5, -2))}), r"column 'd': DECIMAL\(5, -2\)"),
        (define(primary=("x",)), "primary-key column 'x' does not exist; the columns are k, p"),
        (define(partition=("x",)), "partition column 'x' does not exist"),
        (define(primary=("k", "k")), "primary-key column 'k' is named twice"),
        (define(primary=("k", "arr")), "primary-key column 'arr' has type ARRAY<INT> NOT NULL"),
        (define(primary=("k", "arr"), partition=("arr",)), "partition column 'arr' has type ARRAY"),
        (define(primary=("p",), partition=("p",)), "consists of partition columns"),
    ],
)
def test_wrong_columns_and_keys(schema: TableSchema, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        validate_new_table(schema)


def test_repeated_columns() -> None:
    fields, highest = fields_from_arrow(pa.schema([("k", pa.int32()), ("v", pa.int8()), ("v", pa.int8())]))
    with pytest.raises(InvalidInput, match="column 'v' is there twice"):
        validate_new_table(new_table_schema(fields, highest, ("k",), (), {}, None, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "0"}, "'bucket' = '0': a number of at least 1"),
        ({"bucket": "-3"}, "'bucket' = '-3'"),
        ({"bucket": "two"}, "'bucket' = 'two': a whole number"),
        ({"bucket": "-1", "bucket-key": "k"}, "'bucket-key' contradicts 'bucket' = '-1'"),
        ({"bucket-key": "a"}, r"'bucket-key' names 'a', which is not among .* \(k\)"),
        ({"bucket-key": "k, k"}, "names ' k'.* without blanks"),
        ({"merge-engine": "upsert"}, "'merge-engine' = 'upsert': one of deduplicate"),
        ({"write-buffer-size": "big"}, "'write-buffer-size' = 'big': a size such as"),
        ({"metadata.stats-mode": "some"}, r"'metadata\.stats-mode' = 'some': one of none"),
        ({"fields.a.stats-mode": "truncate(0)"}, r"'fields\.a\.stats-mode' = 'truncate\(0\)'"),
        ({"sequence.field": "z"}, r"'sequence\.field' names column 'z', which does not exist"),
        ({"sequence.field": "g,g"}, "names 'g' twice"),
        ({"sequence.field": "g", "fields.g.aggregate-function": "max"}, r"'fields\.g\.aggregate-function' aggregates"),
        ({"fields.z.ignore-retract": "true"}, r"'fields\.z\.ignore-retract' names column 'z'"),
        ({"rowkind.field": "z"}, r"'rowkind\.field' = 'z': the column does not exist"),
        ({"rowkind.field": "g"}, "the column has type BIGINT; name a STRING column"),
        ({"snapshot.num-retained.min": "0"}, r"'snapshot\.num-retained\.min' = '0'"),
        ({"snapshot.num-retained.max": "5"}, r"'snapshot\.num-retained\.min' \(10\) is greater than .* \(5\)"),
        ({"changelog.num-retained.max": "many"}, r"'changelog\.num-retained\.max' = 'many'"),
        ({"changelog-producer": "lookup", "streaming-read-overwrite": "true"}, "'streaming-read-overwrite'"),
        ({"changelog-producer": "lookup", "full-compaction.delta-commits": "3"}, r"'full-compaction\.delta-commits'"),
        (
            {"changelog-producer": "full-compaction", "deletion-vectors.enabled": "true"},
            r"'deletion-vectors\.enabled' = 'true' contradicts 'changelog-producer' = 'full-compaction'",
        ),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        validate_new_table(define(options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (partial_update(fields__z__sequence_group="a"), r"'fields\.z\.sequence-group' names column 'z'"),
        (partial_update(fields__g__sequence_group="a, b"), "names column ' b', .*without blanks"),
        (
            partial_update(fields__g__sequence_group="a", fields__h__sequence_group="a"),
            r"'fields\.h\.sequence-group' protects 'a', which 'fields\.g\.sequence-group' protects already",
        ),
        (partial_update(fields__k__sequence_group="a"), "names primary-key column 'k'"),
        (partial_update(fields__g__sequence_group="a,k"), "names primary-key column 'k'"),
        (
            {**partial_update(fields__g__sequence_group="a"), "fields.g.aggregate-function": "max"},
            "aggregates a sequence column of a group",
        ),
        ({**partial_update(), "fields.b.aggregate-function": "sum"}, "'sum' aggregates column 'b', which is in no"),
        (
            {**partial_update(fields__g__sequence_group="a,p,h,op,arr"), "fields.default-aggregate-function": "max"},
            r"'fields\.default-aggregate-function' = 'max' aggregates column 'b'",
        ),
        (
            {**partial_update(), "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            r"'ignore-delete' and 'partial-update\.remove-record-on-delete' contradict",
        ),
        (
            {
                **partial_update(fields__g__sequence_group="a"),
                "partial-update.ignore-delete": "true",
                "partial-update.remove-record-on-sequence-group": "g",
            },
            r"'ignore-delete' and 'partial-update\.remove-record-on-sequence-group' contradict",
        ),
        (
            {**partial_update(fields__g__sequence_group="a"), "partial-update.remove-record-on-delete": "true"},
            r"contradicts sequence groups \('fields\.g\.sequence-group'\); use 'partial-update\.remove-record-on-seq",
        ),
        (
            {**partial_update(fields__g__sequence_group="a"), "partial-update.remove-record-on-sequence-group": "a"},
            r"names 'a', which is no group's sequence column \(those are: g\)",
        ),
    ],
)
def test_wrong_partial_update_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        validate_new_table(define(options))


def test_keys_that_cross_partitions_need_dynamic_buckets() -> None:
    with pytest.raises(InvalidOption, match=r"lacks partition columns \['p'\], so 'bucket' must be '-1'"):
        validate_new_table(define(partition=("p",)))
    validate_new_table(define({"bucket": "-1"}, partition=("p",)))
    with pytest.raises(InvalidOption, match=r"'sequence\.field' needs a primary key"):
        validate_new_table(define({"bucket": "-1", "sequence.field": "g"}, partition=("p",)))


def test_all_problems_come_at_once() -> None:
    schema = define({"bucket": "0", "sequence.field": "z", "rowkind.field": "y"}, primary=("x",))
    with pytest.raises(InvalidInput) as caught:
        validate_new_table(schema)
    for part in ("'x'", "'bucket' = '0'", "'z'", "'y'"):
        assert part in str(caught.value)
