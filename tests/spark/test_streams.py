"""Streams are refused by name, and leave nothing behind; foreachBatch writes them batch by batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from paimon_spark import PaimonTable
from tests.spark.frames import KEYED, load, rows, write

LONGEST_RUN_SECONDS = 600


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Any:
    """Two rows that arrive in a stream."""
    arrived = tmp_path / "arrived"
    arrived.mkdir()
    (arrived / "rows.json").write_text('{"id": 1, "v": 1}\n{"id": 2, "v": 2}\n')
    return spark.readStream.schema("id bigint, v bigint").json(str(arrived))


def _run(query: Any, directory: Path) -> None:
    started = query.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    assert started.start().awaitTermination(LONGEST_RUN_SECONDS)


def test_a_stream_is_not_written(stream: Any, path: str, tmp_path: Path) -> None:
    query = stream.writeStream.format("paimon-py").options(**KEYED).option("path", path)
    with pytest.raises(StreamingQueryException, match=r"not a sink of Spark's streams.*foreachBatch"):
        _run(query, tmp_path)
    assert not Path(path).exists()


def test_a_table_is_not_read_as_a_stream(spark: Any, path: str, tmp_path: Path) -> None:
    write(spark.range(3).selectExpr("id", "id AS v"), path, **KEYED)
    query = spark.readStream.format("paimon-py").load(path).writeStream.format("noop")
    with pytest.raises(StreamingQueryException, match="not a source of Spark's streams"):
        _run(query, tmp_path)


def test_the_batches_of_a_stream_are_written(spark: Any, stream: Any, path: str, tmp_path: Path) -> None:
    _run(stream.writeStream.foreachBatch(lambda batch, _: write(batch, path, **KEYED)), tmp_path)
    assert rows(load(spark, path)) == [(1, 1), (2, 2)]
    assert PaimonTable.open(path).check() == []
