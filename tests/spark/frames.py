"""What the tests of the Spark floor say over and over: write this DataFrame, read that table, how did it fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from paimon_spark import PaimonTable

KEYED = {"primary-key": "id", "bucket": "2"}
PARTITIONED = {"primary-key": "day,id", "partition": "day", "bucket": "1"}


def write(df: Any, path: str, mode: str = "append", **options: str) -> None:
    """``df`` into the table at ``path``."""
    df.write.format("paimon-py").mode(mode).options(**options).save(path)


def load(spark: Any, path: str | None, **options: str) -> Any:
    """The table at ``path``, or where ``options`` say it is."""
    return spark.read.format("paimon-py").options(**options).load(path)


def assert_rows(actual: Any, expected: Any) -> None:
    """Both DataFrames have the same rows in any order, and the same columns and types."""
    assert_df_equality(
        actual,
        expected,
        ignore_row_order=True,
        ignore_nullable=True,
        ignore_metadata=True,
        allow_nan_equality=True,
    )


def rows(df: Any) -> list[tuple[Any, ...]]:
    """The rows, sorted."""
    return sorted(tuple(row) for row in df.collect())


def failure(action: Callable[[], object]) -> str:
    """The message of the error that ``action`` ends in, as a Spark user sees it."""
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        action()
    return str(caught.value)


def assert_readable(message: str, expected: str) -> None:
    """The user sees ``expected`` (a pattern) in the first lines, and nothing of this package's source code."""
    head = "\n".join(message.strip().splitlines()[:3])
    assert re.search(expected, head), message
    assert "Traceback" not in message, message
    assert 'File "' not in message, message


def data_files(path: str) -> set[str]:
    """The names of all data files below ``path``, whether a snapshot names them or not."""
    return {file.name for file in Path(path).rglob("data-*")}


def named_files(path: str) -> set[str]:
    """The names of the data files of the newest snapshot."""
    return {name.rsplit("/", 1)[1] for name in PaimonTable.open(path).files()["file_path"].to_pylist()}
