"""Keys that lookups in a bucket are asked for, and those of its data files: what is one key, and what is none."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import CorruptFile, InvalidInput
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.writer import RollingWriter
from paimon_spark.lookup import Bucket, LookupFileCache, LookupLevels, ValueProcessor
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import Options
from paimon_spark.rows import binary_row
from paimon_spark.types import DataField, parse_type
from tests.lookup.levels import STORAGE, Levels, cache_in, columns_of, schema_of


def one_file(root: Path, kind: str, type_: str, keys: pa.Array) -> tuple[Bucket, DataFile]:
    """A bucket with one file on level 1, which has these keys in this order."""
    fields = (DataField(0, "k", parse_type(f"{type_} NOT NULL")),)
    schema = TableSchema(0, fields, 0, (), ("k",), Options({"lookup.local-file-type": kind}))
    writer = RollingWriter(STORAGE, str(root), schema, schema.options, 1, 0)
    writer.write(KeyValues(pa.table({"k": keys}), np.arange(len(keys))))
    (file,) = writer.close()
    return Bucket("bucket", STORAGE, schema, lambda file: f"{root}/{file.name}", lambda _: schema), file


def opened(bucket: Bucket, file: DataFile, cache: LookupFileCache) -> LookupLevels:
    return LookupLevels(bucket, [file], ValueProcessor(None, True), cache)


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_what_is_no_key_is_refused(kind: str, tmp_path: Path) -> None:
    """A null is not taken for zero or for the empty text, either."""
    levels = Levels(tmp_path, schema_of(kind, lookup_cache_bloom_filter_enabled="false"))
    levels.add(1, [(0, "", 1.0, None)])
    opened = levels.open(ValueProcessor(None, True), cache_in(tmp_path / "cache"))
    numbers, texts = columns_of([(0, ""), (1, "a")])
    for columns, match in (
        ([numbers], "(k, n)"),
        ([], "(k, n)"),
        ([numbers, texts, texts], "(k, n)"),
        ([numbers, texts[:1]], "[2, 1]"),
        ([pa.array([None, 1], pa.int64()), texts], "column k has 1 nulls"),
        ([numbers, pa.array([None, "a"])], "column n has 1 nulls"),
        ([texts, numbers], "int64 is expected"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(match)):
            opened.lookup_many(columns, 1)
    for key, match in (((0,), "is no key of"), (("a", ""), "BIGINT"), ((2**63, ""), "BIGINT"), ((None, ""), "nulls")):
        with pytest.raises(InvalidInput, match=match):
            opened.lookup(key, 1)
    assert opened.lookup((0, ""), 1).found.all()


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_any_nan_is_found_by_any_other(kind: str, tmp_path: Path) -> None:
    """As in a merge, which takes them for one key; 0.0 and -0.0 are two."""
    bits = np.array([1 << 63, 0, (0x7FF8 << 48) + 5], "u8").view("f8")
    bucket, file = one_file(tmp_path, kind, "DOUBLE", pa.array(bits))
    others = np.array([0, 0x7FF8 << 48, (0xFFF8 << 48) + 7, (0x7FF8 << 48) + 5, 1 << 63], "u8").view("f8")
    found = opened(bucket, file, cache_in(tmp_path / "cache")).lookup_many([pa.array(others)], 1).positions
    assert found is not None
    assert found.tolist() == [1, 2, 2, 2, 0]


@pytest.mark.parametrize(("kind", "keys", "match"), [("sort", [2, 1, 3], "ascend"), ("hash", [1, 2, 1], "put twice")])
def test_a_data_file_whose_keys_are_in_disorder_is_named(
    kind: str, keys: list[int], match: str, tmp_path: Path
) -> None:
    bucket, file = one_file(tmp_path, kind, "INT", pa.array(keys, pa.int32()))
    cache = cache_in(tmp_path / "cache")
    with pytest.raises(CorruptFile, match=rf"{file.name}.*{match}"):
        opened(bucket, file._replace(max_key=file.min_key), cache).lookup_many([pa.array([keys[0]], pa.int32())], 1)
    assert cache.directory.files() == []


@pytest.mark.parametrize("kind", ["hash", "sort"])
def test_rows_of_an_older_schema_are_found_in_the_columns_of_now(kind: str, tmp_path: Path) -> None:
    """Also where there is a lookup file already that was made for the columns of then."""
    then = schema_of(kind)
    levels = Levels(tmp_path, then)
    levels.add(2, [(k, "a", k / 2, "text") for k in range(50)])
    cache = cache_in(tmp_path / "cache")
    before = levels.open(ValueProcessor(then.fields, True), cache).lookup((7, "a"), 1)
    renamed, added = DataField(2, "half", parse_type("DOUBLE")), DataField(4, "new", parse_type("INT"))
    now = replace(then, id=1, fields=(added, *then.fields[:2], renamed), highest_field_id=4)
    bucket = replace(levels.bucket(), schema=now, data_schema=lambda _: then)
    lookup = LookupLevels(bucket, levels.files, ValueProcessor(now.fields, True), cache)
    hits = lookup.lookup_many(columns_of([(7, "a"), (99, "a"), (3, "a")]), 1)
    assert before.rows is not None
    assert before.rows.values.to_pylist() == [{"k": 7, "n": "a", "v": 3.5, "s": "text"}]
    assert hits.rows is not None
    assert hits.rows.values.to_pylist() == [{"new": None, "k": k, "n": "a", "half": k / 2} for k in (7, 3)]


@pytest.mark.parametrize("bound", ["min_key", "max_key"])
def test_a_file_whose_key_range_has_a_null_is_named(bound: str, tmp_path: Path) -> None:
    bucket, file = one_file(tmp_path, "sort", "BIGINT", pa.array([1, 5], pa.int64()))
    null = b"\0\0\0\1" + binary_row.encode([pa.nulls(1, pa.int64())], [parse_type("BIGINT")])[0].as_py()
    damaged = file._replace(**{bound: null})
    with pytest.raises(CorruptFile, match=f"{re.escape(file.name)}.* null"):
        opened(bucket, damaged, cache_in(tmp_path / "cache")).lookup_many([pa.array([3], pa.int64())], 1)
