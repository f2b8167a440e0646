"""TableSchema and SchemaStore, against the schema files that Java wrote."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile, InvalidOption, NotFound, UnsupportedFeature
from paimon_spark.metadata import json_object
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import SchemaStore, SequenceGroup, TableSchema, new_table_schema
from paimon_spark.options import BUCKET, FILE_FORMAT, Options
from paimon_spark.storage.local import LocalStorage
from paimon_spark.types import fields_from_arrow
from tests.metadata.tables import newest_schema, table_directories

COLUMNS = pa.schema([("k", pa.int32()), ("p", pa.string()), ("v", pa.float64())])


def _json(**changes: Any) -> dict[str, Any]:
    fields = [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}]
    json_ = {"version": 3, "id": 0, "fields": fields, "highestFieldId": 1, "partitionKeys": [], "primaryKeys": ["k"]}
    return {k: v for k, v in {**json_, "options": {}, "timeMillis": 5, **changes}.items() if v is not ...}


def _parse(**changes: Any) -> TableSchema:
    return TableSchema.parse(json.dumps(_json(**changes)).encode(), "schema-0")


def _new(
    primary: tuple[str, ...] = ("k",), partition: tuple[str, ...] = (), options: dict[str, str] | None = None
) -> TableSchema:
    fields, highest = fields_from_arrow(COLUMNS)
    return new_table_schema(fields, highest, primary, partition, options or {}, "hello", 7)


def _store(tmp_path: Path) -> SchemaStore:
    return SchemaStore(LocalStorage(), TablePaths(str(tmp_path)))


def test_golden_schemas_survive_a_round_trip(golden: Path) -> None:
    files = sorted(golden.rglob("schema/schema-*"))
    assert len(files) > 60
    for file in files:
        schema = TableSchema.parse(file.read_bytes(), str(file))
        assert json.loads(schema.serialize()) == json.loads(file.read_bytes()), file


def test_the_latest_golden_schema_is_found_by_listing(golden: Path) -> None:
    for table in table_directories(golden):
        store = SchemaStore(LocalStorage(), TablePaths(str(table)))
        assert store.latest() == newest_schema(table)
        assert store.ids() == list(range(len(store.ids())))
    evolved = golden / "java-2.0/schema_evolution/warehouse/default.db/t"
    assert len(SchemaStore(LocalStorage(), TablePaths(str(evolved))).ids()) > 1


def test_keys_of_a_golden_table(golden: Path) -> None:
    schema = newest_schema(golden / "java-0.9/partition_kinds/warehouse/default.db/t")
    assert schema.trimmed_primary_keys == ("k",)
    assert [f.name for f in schema.key_fields] == ["k"]
    assert [f.name for f in schema.partition_fields] == ["p_i", "p_s", "p_b", "p_dec"]
    assert schema.bucket_keys == ("k",)
    assert schema.bucket == 1
    assert not schema.crosses_partitions


def test_sequence_groups(golden: Path) -> None:
    schema = newest_schema(golden / "java-0.9/pu_seqgroups/warehouse/default.db/t")
    assert schema.merge_engine == "partial-update"
    groups = (SequenceGroup(("g_1",), ("a", "b")), SequenceGroup(("g_2",), ("c", "d")))
    assert schema.sequence_groups == groups
    two = _parse(options={"fields.s1,s2.sequence-group": "v,w"})
    assert two.sequence_groups == (SequenceGroup(("s1", "s2"), ("v", "w")),)


def test_key_order_is_the_primary_keys_order_without_partitions() -> None:
    schema = _new(("v", "p", "k"), ("p",))
    assert schema.trimmed_primary_keys == ("v", "k")
    assert [f.name for f in schema.key_fields] == ["v", "k"]
    assert _new(("v", "k"), options={"bucket-key": "k"}).bucket_keys == ("k",)


@pytest.mark.parametrize(
    ("version", "bucket", "file_format"), [(..., 1, "orc"), (1, 1, "orc"), (2, -1, "orc"), (3, -1, "parquet")]
)
def test_old_versions_keep_their_defaults(version: Any, bucket: int, file_format: str) -> None:
    options = _parse(version=version).options
    assert options.get_option(BUCKET) == bucket
    assert options.get_option(FILE_FORMAT) == file_format
    given = _parse(version=version, options={"bucket": "4", "file.format": "avro"}).options
    assert (given["bucket"], given["file.format"]) == ("4", "avro")
    assert json.loads(_parse(version=version).serialize())["version"] == 3


def test_unknown_keys_and_missing_optional_keys_are_fine() -> None:
    schema = _parse(fromTheFuture={"a": [1]}, timeMillis=..., options={"n": 1, "b": True})
    assert schema.time_millis == 0
    assert schema.comment is None
    assert dict(schema.options) == {"n": "1", "b": "true"}


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"id": ...}, "'id' is missing"),
        ({"id": "0"}, "'id': a 64-bit integer is expected"),
        ({"id": True}, "'id': a 64-bit integer is expected"),
        ({"highestFieldId": 2**63}, "'highestFieldId'"),
        ({"fields": ...}, "'fields': an array is expected, not nothing"),
        ({"fields": [{"id": 0, "name": "k"}]}, "'fields'"),
        ({"fields": [{"name": "k", "type": "INT"}]}, "'fields'"),
        ({"fields": ["k"]}, "'fields'"),
        ({"fields": [{"id": 0, "name": "k", "type": "NUMBERS"}]}, "not a Paimon type"),
        ({"fields": [{"id": i, "name": "k", "type": "INT"} for i in (0, 1)]}, "twice"),
        ({"primaryKeys": ["x"]}, "'x'"),
        ({"partitionKeys": [1]}, "'partitionKeys'"),
        ({"options": []}, "'options'"),
        ({"options": {"a": {}}}, "'options'"),
        ({"comment": 1}, "'comment'"),
    ],
)
def test_a_damaged_schema_is_corrupt(changes: dict[str, Any], detail: str) -> None:
    with pytest.raises(CorruptFile, match=f"schema-0.*{detail}"):
        _parse(**changes)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 200_000, b'{"a":' * 200_000])
def test_what_is_no_json_object_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="schema-0"):
        TableSchema.parse(data, "schema-0")


@pytest.mark.parametrize("depth", [100, 900, 5000])
def test_a_type_nested_too_deeply_is_corrupt(depth: int) -> None:
    type_ = '{"type": "ARRAY", "element": ' * depth + '"INT"' + "}" * depth
    data = json.dumps(_json(fields=[{"id": 0, "name": "k", "type": "TYPE"}])).replace('"TYPE"', type_)
    with pytest.raises(CorruptFile, match="nested too deeply"):
        TableSchema.parse(data.encode(), "schema-0")


def test_types_of_newer_releases_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeature, match=r"schema-0.*VARIANT"):
        _parse(fields=[{"id": 0, "name": "k", "type": "VARIANT"}])


def test_a_new_table_is_normalised() -> None:
    schema = _new(options={"partition": "p", "path": "/x", "merge-engine": "partial-update"}, primary=("k", "p"))
    assert schema.partition_keys == ("p",)
    assert [f.type.nullable for f in schema.fields] == [False, False, True]
    assert dict(schema.options) == {"merge-engine": "partial-update", "bucket": "1", "file.format": "parquet"}
    assert (schema.id, schema.highest_field_id, schema.comment, schema.time_millis) == (0, 2, "hello", 7)


def test_keys_may_come_from_options_but_not_twice() -> None:
    assert _new(primary=(), options={"primary-key": "k, p"}).primary_keys == ("k", "p")
    assert _new(options={"primary-key": "k", "bucket": "3"}).options["bucket"] == "3"
    with pytest.raises(InvalidOption, match=r"'primary-key' names \['p'\], the argument \['k'\]"):
        _new(options={"primary-key": "p"})


def test_a_schema_is_created_once(tmp_path: Path) -> None:
    store = _store(tmp_path)
    assert store.latest() is None
    assert store.create(_new())
    assert not store.create(_new(("p",)))
    latest = _store(tmp_path).latest()
    assert latest is not None
    assert latest == _new()


def test_the_store_ignores_foreign_files_and_pickles(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.create(_new())
    for name in ("schema-x", ".schema-1.abc.tmp", "README"):
        (tmp_path / "schema" / name).write_text("")
    assert store.ids() == [0]
    assert pickle.loads(pickle.dumps(store)).get(0) == store.get(0)


def test_get_answers_from_memory_because_schemas_never_change(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.create(_new())
    first = store.get(0)
    (tmp_path / "schema" / "schema-0").unlink()
    assert store.get(0) is first
    with pytest.raises(NotFound, match="schema 0 of table"):
        _store(tmp_path).get(0)


def test_a_schema_under_another_id_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "schema-1").write_bytes(_new().serialize())
    with pytest.raises(CorruptFile, match="schema-1: it holds schema 0"):
        _store(tmp_path).get(1)


def test_an_oversized_schema_is_corrupt_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    with open(tmp_path / "schema" / "schema-0", "wb") as file:
        file.truncate(json_object.SIZE_LIMIT + 1)
    with pytest.raises(CorruptFile, match="at most"):
        _store(tmp_path).get(0)


def test_options_can_be_laid_over() -> None:
    schema = _new()
    over = schema.with_options(schema.options.merged({"bucket": "9"}))
    assert over.bucket == 9
    assert schema.bucket == 1
    assert over.with_options(Options(schema.options)) == schema
