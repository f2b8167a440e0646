"""What a writer makes of sorted rows: files, their layout, their metadata."""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import InvalidInput, InvalidOption, UnsupportedFeature
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.writer import RollingWriter
from paimon_spark.metadata.data_file import COMPACT, DataFile
from paimon_spark.rows.binary_row import decode
from paimon_spark.types import DataField, arrow_schema
from tests.files.tables import STORAGE, fields_of, numbered, read, schema_of, write

FIELDS = fields_of(("k", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT"))


def _rows(start: int, stop: int) -> pa.Table:
    keys = np.arange(start, stop)
    return pa.table(
        [keys, [f"value {k * 7919 % 1000003}" for k in keys], keys.astype(np.int32)], schema=arrow_schema(FIELDS)
    )


def _bounds(files: Sequence[DataFile], fields: Sequence[DataField]) -> list[tuple[Any, Any]]:
    types = [f.type for f in fields]
    return [tuple(decode([f.min_key, f.max_key], types)[0].to_pylist()) for f in files]


def test_metadata_of_one_file(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, id_=3)
    table = pa.table({"k": [1, 5, 9], "v": ["b", None, "a"], "n": [None, 2, -2]}, schema=arrow_schema(FIELDS))
    rows = KeyValues(table, np.array([12, 10, 11]), np.array([0, 3, 1], np.int8))
    before = time.time()
    (file,) = write(tmp_path / "new" / "bucket-0", schema, rows, level=5, source=COMPACT)
    assert file.size == (tmp_path / "new" / "bucket-0" / file.name).stat().st_size
    assert (file.row_count, file.delete_row_count, file.level, file.source, file.schema_id) == (3, 2, 5, COMPACT, 3)
    assert (file.min_sequence, file.max_sequence) == (10, 12)
    assert _bounds([file], schema.key_fields) == [(1, 9)]
    assert file.key_stats.lower == file.min_key
    assert file.key_stats.upper == file.max_key
    assert file.key_stats.null_counts == (0,)
    types = [f.type.as_nullable() for f in FIELDS]
    assert [a[0].as_py() for a in decode([file.value_stats.lower], types)] == [1, "a", -2]
    assert [a[0].as_py() for a in decode([file.value_stats.upper], types)] == [9, "b", 2]
    assert file.value_stats.null_counts == (0, 1, 1)
    assert file.value_stats_cols is None
    assert file.creation_millis is not None
    wall_clock = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=file.creation_millis)
    assert abs((wall_clock - datetime.datetime.fromtimestamp(before)).total_seconds()) < 60


def test_physical_layout(tmp_path: Path) -> None:
    row = {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT NOT NULL"}]}
    fields = (
        *fields_of(("a", "INT"), ("k2", "STRING NOT NULL"), ("k1", "INT NOT NULL"), ("d", "DECIMAL(9, 2)"), ("r", row)),
        *fields_of(("l", {"type": "ARRAY", "element": "INT"}), ("b", "BINARY(3)"), first_id=6),
        *fields_of(("m", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}), first_id=8),
        *fields_of(("t3", "TIMESTAMP(3)"), ("t6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), first_id=9),
    )
    schema = schema_of(fields, ("k2", "k1"))
    table = pa.Table.from_pylist(
        [{"a": 1, "k2": "x", "k1": 1, "r": {"x": 2}, "l": [1, 2], "m": [("a", 1)]}], schema=arrow_schema(fields)
    )
    (file,) = write(tmp_path, schema, numbered(table))
    stored = pq.ParquetFile(tmp_path / file.name)
    assert stored.schema_arrow.names[:4] == ["_KEY_k2", "_KEY_k1", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in stored.schema_arrow}
    assert [ids[n] for n in ("_KEY_k2", "_KEY_k1", "_SEQUENCE_NUMBER", "_VALUE_KIND", "a", "r")] == [
        1073741824,
        1073741825,
        2147483646,
        2147483645,
        0,
        4,
    ]
    nullable = {f.name: f.nullable for f in stored.schema_arrow}
    assert [n for n, null in nullable.items() if not null] == [
        *("_KEY_k2", "_KEY_k1", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k2", "k1")
    ]
    element = stored.schema_arrow.field("l").type.value_field
    assert (element.name, int(element.metadata[b"PARQUET:field_id"])) == ("element", 536870911 + 1024 * 6 + 1)
    key = stored.schema_arrow.field("m").type.key_field
    assert int(key.metadata[b"PARQUET:field_id"]) == 536870911 - 1024 * 8 - 1
    assert int(stored.schema_arrow.field("r").type.field(0).metadata[b"PARQUET:field_id"]) == 5
    leaves = {stored.schema.column(i).path: stored.schema.column(i) for i in range(len(stored.schema))}
    assert leaves["_VALUE_KIND"].physical_type == "INT32"
    assert leaves["d"].physical_type == "INT32"
    assert leaves["b"].physical_type == "BYTE_ARRAY"
    assert "milliseconds" in str(leaves["t3"].logical_type)
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(leaves["t6"].logical_type)
    encodings = {e for i in range(len(leaves)) for e in stored.metadata.row_group(0).column(i).encodings}
    assert encodings <= {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}


def test_thin_files_have_no_key_columns(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, data__file_thin__mode="true")
    (file,) = write(tmp_path, schema, numbered(_rows(0, 10)))
    assert pq.read_schema(tmp_path / file.name).names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v", "n"]
    assert read(tmp_path, file, schema).values.equals(_rows(0, 10))
    assert _bounds([file], schema.key_fields) == [(0, 9)]


def test_files_roll_at_the_target_size(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, target__file__size="64 kb")
    total = 100_000
    parts = [numbered(_rows(i, i + 500)) for i in range(0, total, 500)]
    files = write(tmp_path, schema, *parts)
    assert len(files) > 4
    assert sum(f.row_count for f in files) == total
    assert all(48 * 1024 < f.size < 96 * 1024 for f in files[:-1]), [f.size for f in files]
    bounds = _bounds(files, schema.key_fields)
    assert bounds[0][0] == 0
    assert all(a[1] + 1 == b[0] for a, b in pairwise(bounds))
    assert [f.name.rsplit("-", 1)[1] for f in files] == [f"{i}.parquet" for i in range(len(files))]
    assert pa.concat_tables([read(tmp_path, f, schema).values for f in files]).equals(_rows(0, total))


def test_one_large_batch_rolls_the_same(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, target__file__size="64 kb")
    files = write(tmp_path, schema, numbered(_rows(0, 100_000)))
    assert len(files) > 4
    assert all(48 * 1024 < f.size < 96 * 1024 for f in files[:-1]), [f.size for f in files]


def test_files_have_a_thousand_rows_whatever_the_target(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, target__file__size="1 b")
    assert [f.row_count for f in write(tmp_path, schema, numbered(_rows(0, 2500)))] == [1000, 1000, 500]


def test_row_groups_follow_the_block_size(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, file_block__size="64 kb")
    (file,) = write(tmp_path, schema, numbered(_rows(0, 20_000)))
    metadata = pq.ParquetFile(tmp_path / file.name).metadata
    assert metadata.num_row_groups > 3
    assert read(tmp_path, file, schema).values.equals(_rows(0, 20_000))


def test_nothing_written_makes_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, schema_of(FIELDS), numbered(_rows(0, 0))) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("none", "UNCOMPRESSED"),
        ("uncompressed", "UNCOMPRESSED"),
        ("snappy", "SNAPPY"),
        ("gzip", "GZIP"),
        ("zstd", "ZSTD"),
        ("lz4", "LZ4"),
    ],
)
def test_codecs(tmp_path: Path, codec: str, stored: str) -> None:
    schema = schema_of(FIELDS, file_compression=codec, file_suffix_include_compression="true")
    (file,) = write(tmp_path, schema, numbered(_rows(0, 100)))
    assert file.name.endswith(f"-0.{codec}.parquet")
    assert pq.ParquetFile(tmp_path / file.name).metadata.row_group(0).column(0).compression == stored
    assert read(tmp_path, file, schema).values.equals(_rows(0, 100))


def test_codec_and_prefix_of_a_level(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, file_compression_per_level="0:lz4,5:none", data__file_prefix="part-")
    for level, codec in ((0, "LZ4"), (5, "UNCOMPRESSED"), (2, "ZSTD")):
        (file,) = write(tmp_path, schema, numbered(_rows(0, 100)), level=level)
        assert file.name.startswith("part-")
        assert pq.ParquetFile(tmp_path / file.name).metadata.row_group(0).column(0).compression == codec


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"file_compression": "lzo"}, InvalidOption, "lzo"),
        ({"file_format": "orc"}, UnsupportedFeature, "orc"),
        ({"metadata_stats__mode": "truncate(x)"}, InvalidOption, "metadata.stats-mode"),
        ({"fields_v_stats__mode": "some"}, InvalidOption, "fields.v.stats-mode"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, str], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        write(tmp_path, schema_of(FIELDS, **options))


def test_nulls_in_not_null_columns_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    fields = fields_of(("k", "INT NOT NULL"), ("v", "INT NOT NULL"))
    schema = schema_of(fields, target__file__size="1 b")
    table = pa.table({"k": pa.array(range(3000), pa.int32()), "v": pa.array([1] * 2500 + [None] * 500, pa.int32())})
    writer = RollingWriter(STORAGE, str(tmp_path), schema, schema.options, 0, 0)
    writer.write(numbered(table.slice(0, 2000)))
    with pytest.raises(InvalidInput, match="'v'"):
        writer.write(numbered(table.slice(2000)))
    assert len(list(tmp_path.iterdir())) >= 2
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_abort_deletes_finished_and_open_files(tmp_path: Path) -> None:
    schema = schema_of(FIELDS, target__file__size="16 kb", file_block__size="1 b")
    other = tmp_path / "other.parquet"
    other.write_bytes(b"not mine")
    writer = RollingWriter(STORAGE, str(tmp_path), schema, schema.options, 0, 0)
    for start in range(0, 50_000, 1000):
        writer.write(numbered(_rows(start, start + 1000)))
        if len(list(tmp_path.iterdir())) > 2 and _open_below(tmp_path):
            break
    assert len(list(tmp_path.iterdir())) > 2
    assert len(_open_below(tmp_path)) == 1
    writer.abort()
    assert list(tmp_path.iterdir()) == [other]
    assert _open_below(tmp_path) == []


def _open_below(directory: Path) -> list[str]:
    """What this process has open in a directory; the other descriptors are other tests' affair, and come and go."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [path for path in found if path.startswith(f"{directory}/")]


def test_long_timestamps_are_int96_alone_and_refused_beside_others(tmp_path: Path) -> None:
    fields = fields_of(("k", "INT NOT NULL"), ("t", "TIMESTAMP(9)"))
    schema = schema_of(fields)
    table = pa.table(
        {"k": pa.array([1, 2], pa.int32()), "t": pa.array([-1, 1_700_000_000_123_456_789], pa.timestamp("ns"))}
    )
    (file,) = write(tmp_path, schema, numbered(table))
    assert pq.ParquetFile(tmp_path / file.name).schema.column(4).physical_type == "INT96"
    assert read(tmp_path, file, schema).values.column("t").equals(table.column("t"))
    assert file.value_stats.null_counts == (0, 0)
    with pytest.raises(UnsupportedFeature, match="column t"):
        write(tmp_path, schema_of((*fields, *fields_of(("u", "TIMESTAMP(3)"), first_id=2))))
