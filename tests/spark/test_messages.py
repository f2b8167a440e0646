"""What travels between Spark's driver and its workers: small, flat, and without credentials where none are needed."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

from paimon_spark import PaimonTable
from paimon_spark.spark.opening import open_scan, open_writer
from paimon_spark.spark.reader import PaimonReader, scan_schema
from paimon_spark.spark.writer import WrittenFiles
from tests.storage.object_server import ObjectServer

COLUMNS = 10
BYTES_A_FILE = 1024


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.stop()


def rows(count: int = 200) -> pa.Table:
    keys = np.arange(count)
    texts = {f"s{i}": [f"a text of the {i}th column, {k * 7919 % 1000}" for k in keys] for i in range(COLUMNS // 2)}
    return pa.table({"id": keys, **{f"n{i}": keys * i for i in range(COLUMNS // 2 - 1)}, **texts})


def values(thing: Any) -> Iterator[Any]:
    """The leaves of what is built of dataclasses, tuples, lists and mappings; anything else is a leaf."""
    if dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from values(getattr(thing, field.name))
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            yield from values(item)
    elif isinstance(thing, dict):
        for item in (*thing.keys(), *thing.values()):
            yield from values(item)
    else:
        yield thing


@pytest.fixture
def given(server: ObjectServer) -> dict[str, str]:
    """What a Spark user gives: a path, credentials, and the definition of the table."""
    return {**server.options, "path": "s3://bucket/t", "primary-key": "id", "bucket": "8"}


def test_the_message_of_a_write_is_flat_small_and_without_credentials(given: dict[str, str]) -> None:
    data = rows()
    columns = spark_types.StructType()
    for field in data.schema:
        columns = columns.add(
            field.name, spark_types.LongType() if field.type == pa.int64() else spark_types.StringType()
        )
    task = open_writer(given, columns, overwrite=False)._write.task(0)
    task.write(data)
    written = WrittenFiles(task.finish(), 0, 0)
    assert {type(value) for value in values(written)} <= {str, int, bytes, type(None)}
    message = pickle.dumps(written)
    assert b"CANARY" not in message
    assert len(written.message.entries) == 8
    print(f"commit message: {len(message) / 8:.0f} bytes a file")
    assert len(message) / 8 <= BYTES_A_FILE


def test_the_partition_of_a_read_is_flat_small_and_without_credentials(given: dict[str, str]) -> None:
    PaimonTable.create("s3://bucket/t", rows().schema, ["id"], options={**given, "path": "s3://bucket/t"}).append(
        rows()
    )
    scan = open_scan(given)
    partitions = PaimonReader.of(scan, scan_schema(scan)).partitions()
    files = [file for partition in partitions for split in partition.splits for file in split.files]
    assert len(files) == 8
    for partition in partitions:
        assert {type(value) for value in values(list(partition.splits))} <= {str, int, bytes, type(None)}
    pickled = [pickle.dumps(partition) for partition in partitions]
    assert not any(b"CANARY" in partition for partition in pickled)
    print(f"partitions: {sum(map(len, pickled)) / 8:.0f} bytes a file")
    assert sum(map(len, pickled)) / 8 <= BYTES_A_FILE
