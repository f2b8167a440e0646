"""One real Spark session for all tests of the Spark floor: two cores, three attempts a task."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.java.jvm import QUICK_JVM, java_home


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session that finds ``paimon-py`` by itself. Its time zone is not UTC, and not this machine's either. It needs
    no name of this machine, and its Java and Python wait for each other where the machine stands still for a while."""
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    root = Path(__file__).parents[2]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master("local[2,3]")
        .appName("paimon-py tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", " ".join(QUICK_JVM))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.python.authenticate.socketTimeout", "10min")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the test's table will be."""
    return str(tmp_path / "table")
