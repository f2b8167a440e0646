"""What is refused by name, for reads and for writes, and options an existing table keeps for life."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidOption, UnsupportedFeature
from paimon_spark.metadata.unsupported import check_immutable, refuse_unsupported
from tests.metadata.tables import newest_schema, table_directories
from tests.metadata.test_validation import COLUMNS, define

PARTIAL_UPDATE = {"merge-engine": "partial-update"}
GROUPED = {**PARTIAL_UPDATE, "fields.g.sequence-group": "a,b"}

REFUSED_ALWAYS = [
    ({"merge-engine": "aggregation"}, "merge engine 'aggregation'"),
    ({"merge-engine": "first-row"}, "merge engine 'first-row'"),
    ({"merge-engine": "from-the-future"}, "merge engine 'from-the-future'"),
    ({**GROUPED, "fields.b.aggregate-function": "sum"}, "aggregate function 'sum' of column 'b'"),
    ({**GROUPED, "fields.b.aggregate-function": "last_non_null_value"}, "'last_non_null_value' of column 'b'"),
    ({**PARTIAL_UPDATE, "fields.b.aggregate-function": "max"}, "aggregate function 'max'"),
    ({**PARTIAL_UPDATE, "fields.default-aggregate-function": "sum"}, r"'fields\.default-aggregate-function' = 'sum'"),
    (
        {**GROUPED, "fields.default-aggregate-function": "last_non_null_value"},
        r"would apply to columns of sequence groups \(a, b\)",
    ),
    ({**GROUPED, "fields.h.sequence-group": "g"}, "column 'g', which orders a sequence group, cannot be in another"),
    ({**GROUPED, "fields.h,g.sequence-group": "op"}, "column 'g', which orders a sequence group"),
    ({"manifest.format": "parquet"}, r"'manifest\.format' = 'parquet'"),
    ({"pk-clustering-override": "true"}, "'pk-clustering-override'"),
    ({"row-tracking.enabled": "TRUE"}, r"'row-tracking\.enabled'"),
    ({"data-evolution.enabled": "true"}, r"'data-evolution\.enabled'"),
    ({"chain-table.enabled": "true"}, r"'chain-table\.enabled'"),
    ({"primary-key.nullable": "true"}, r"'primary-key\.nullable'"),
    ({"query-auth.enabled": "true"}, r"'query-auth\.enabled'"),
    ({"type": "format-table"}, "'type' = 'format-table'"),
    ({"branch": "b1"}, "'branch' = 'b1'"),
    ({"scan.fallback-branch": "b1"}, r"'scan\.fallback-branch'"),
    ({"parquet.encryption.footer.key": "k"}, "encryption"),
]
REFUSED_FOR_WRITE = [
    ({"bucket": "-1"}, "dynamic buckets"),
    ({"bucket": "-2"}, "postponed buckets"),
    ({"changelog-producer": "input"}, "'changelog-producer' = 'input'"),
    ({"sequence.snapshot-ordering": "true"}, r"'sequence\.snapshot-ordering'"),
    ({"write.sequence-number-init-mode": "snapshot"}, r"'write\.sequence-number-init-mode' = 'snapshot'"),
    ({"bucket-function.type": "hive"}, r"'bucket-function\.type' = 'hive'"),
    ({"data-file.external-paths": "s3://b/x"}, r"'data-file\.external-paths'"),
    ({"file.format": "orc"}, r"file format 'orc' \('file\.format'\)"),
    ({"file.format.per.level": "0:avro,5:parquet"}, r"file format 'avro' \('file\.format\.per\.level'\)"),
    ({"record-level.expire-time": "1 d"}, r"'record-level\.expire-time'"),
]
ALLOWED = [
    {},
    {"merge-engine": "deduplicate"},
    GROUPED,
    {**PARTIAL_UPDATE, "fields.a.aggregate-function": "last_non_null_value"},
    {**PARTIAL_UPDATE, "fields.default-aggregate-function": "last_non_null_value"},
    {"fields.a.aggregate-function": "sum"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"deletion-vectors.enabled": "true"},
    {"data-file.thin-mode": "true"},
    {"index-file-in-data-file-dir": "true"},
    {"row-tracking.enabled": "false", "manifest.format": "AVRO", "type": "table", "branch": "main"},
    {"bucket-function.type": "mod"},
    {"file.format": "Parquet", "file.format.per.level": "0:parquet"},
]


@pytest.mark.parametrize(("options", "message"), REFUSED_ALWAYS)
@pytest.mark.parametrize("for_write", [False, True])
def test_refused_always(options: dict[str, str], message: str, for_write: bool) -> None:
    with pytest.raises(UnsupportedFeature, match=message):
        refuse_unsupported(define(options), for_write)


@pytest.mark.parametrize(("options", "message"), REFUSED_FOR_WRITE)
def test_refused_for_write_only(options: dict[str, str], message: str) -> None:
    refuse_unsupported(define(options), for_write=False)
    with pytest.raises(UnsupportedFeature, match=message):
        refuse_unsupported(define(options), for_write=True)


@pytest.mark.parametrize("options", ALLOWED)
def test_allowed(options: dict[str, str]) -> None:
    refuse_unsupported(define(options), for_write=True)


def test_append_tables_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"append tables \(tables without primary key\)"):
        refuse_unsupported(define(primary=()), for_write=False)


def test_keys_that_cross_partitions_are_read_but_not_written() -> None:
    schema = define({"bucket": "-1"}, partition=("p",))
    refuse_unsupported(schema, for_write=False)
    with pytest.raises(UnsupportedFeature, match=r"lacks partition columns \['p'\]"):
        refuse_unsupported(schema, for_write=True)


@pytest.mark.parametrize(
    "type_", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.list_(pa.struct([("t", pa.timestamp("ns"))]))]
)
def test_fine_timestamps_are_read_but_not_written(type_: pa.DataType) -> None:
    schema = define(columns={**COLUMNS, "t": type_})
    refuse_unsupported(schema, for_write=False)
    with pytest.raises(UnsupportedFeature, match=r"column 't' .*use TIMESTAMP\(6\)"):
        refuse_unsupported(schema, for_write=True)


def test_all_features_come_at_once() -> None:
    schema = define({"bucket": "-1", "file.format": "orc", "chain-table.enabled": "true"})
    with pytest.raises(UnsupportedFeature, match=r"cannot be written.*chain-table.*dynamic buckets.*orc"):
        refuse_unsupported(schema, for_write=True)


def test_golden_tables_are_read_except_where_they_aggregate(golden: Path) -> None:
    refused = set()
    for table in table_directories(golden):
        try:
            refuse_unsupported(newest_schema(table), for_write=False)
        except UnsupportedFeature:
            refused.add(table.relative_to(golden).parts[1])
    assert refused == {"agg_all", "agg_retract", "first_row", "pu_seqgroup_agg", "dv_pu_seqgroup"}


TABLE = define(
    {"bucket": "2", "merge-engine": "partial-update", "rowkind.field": "op"}, primary=("k", "p"), partition=("p",)
)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"bucket": " 2 ", "merge-engine": "PARTIAL-UPDATE", "rowkind.field": "op"},
        {"primary-key": "k, p", "partition": "p"},
        {"bucket-key": "k"},
        {"bucket-function.type": "default", "partial-update.remove-record-on-delete": "false"},
        {"sequence.snapshot-ordering": "false"},
        {"write-buffer-size": "1 mb", "sequence.field": "g"},
    ],
)
def test_a_tables_own_values_may_be_given_again(given: dict[str, str]) -> None:
    check_immutable(TABLE, given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bucket": "4"}, "option 'bucket' = '4', but the table has '2'"),
        ({"merge-engine": "deduplicate"}, "'merge-engine' = 'deduplicate', but the table has 'partial-update'"),
        ({"primary-key": "p,k"}, "'primary-key' = 'p,k', but the table has 'k,p'"),
        ({"partition": "k"}, "'partition' = 'k', but the table has 'p'"),
        ({"bucket-key": "p"}, "'bucket-key' = 'p', but the table has 'k'"),
        ({"rowkind.field": "a"}, r"'rowkind\.field' = 'a', but the table has 'op'"),
        ({"data-file.path-directory": "x"}, r"'data-file\.path-directory' = 'x', but the table has none"),
        ({"sequence.snapshot-ordering": "true"}, "'true', but the table has 'false'"),
        ({"bucket": "x"}, "'bucket' = 'x': a whole number is expected"),
    ],
)
def test_immutable_options_cannot_change(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        check_immutable(TABLE, given)


def test_all_immutable_options_come_at_once() -> None:
    with pytest.raises(InvalidOption, match=r"'primary-key'.*'bucket'.*Leave them out, or create another table"):
        check_immutable(TABLE, {"bucket": "4", "primary-key": "a"})
