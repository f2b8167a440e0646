"""Three feeds, one table: every feed upserts the columns it knows, and the newest word on each column group wins.

    make demo            or   .venv/bin/python examples/flights.py [a new directory]

The feeds arrive in nine shuffled batches, a third of their news stale. The table is partial-update with a sequence
group a feed, so in the end it must equal the source, row for row. The feeds only write; a compaction then folds what
they wrote, and reads need no merging any more. The table stays under ``build/`` to be looked at, until ``make clean``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from flight_feeds import FEEDS, KEY, batches, load_airlines, load_flights, table_schema
from pyspark.sql import DataFrame, Row, SparkSession

from paimon_spark import PaimonTable

BUILD = Path(__file__).resolve().parents[1] / "build"
BATCHES = 3

OPTIONS = {
    "merge-engine": "partial-update",
    "bucket": "2",
    "deletion-vectors.enabled": "true",
    "write-only": "true",
    **{f"fields.{feed.clock}.sequence-group": ",".join(feed.columns) for feed in FEEDS},
}

ON_TIME = """
    SELECT name AS airline, count(*) AS flights,
           round(100 * avg(CAST(dep_time IS NULL AS INT)), 1) AS cancelled_percent,
           round(100 * avg(CAST(arr_delay <= 15 AS INT)), 1) AS on_time_percent,
           round(avg(arr_delay), 1) AS mean_delay_minutes
    FROM flights JOIN airlines USING (carrier)
    GROUP BY name ORDER BY on_time_percent DESC
"""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what happened and how long it took."""
    start = time.perf_counter()
    yield
    print(f"  {what:<58}{time.perf_counter() - start:6.1f} s", flush=True)


def main(path: Path) -> None:
    """Load, upsert, query, prove."""
    with step("fetch the flights of New York, 2013"):
        flights = load_flights()
    assert flights.group_by(KEY).aggregate([]).num_rows == flights.num_rows
    with step("start Spark"):
        spark = SparkSession.builder.master("local[2]").appName("flights").getOrCreate()

    print("\nThree feeds write to one table, in any order, stale news among them")
    PaimonTable.create(str(path), table_schema(flights.schema), KEY, ["month"], OPTIONS)
    arrivals = [
        (feed.name, i, batch) for feed in FEEDS for i, batch in enumerate(batches(flights, feed, BATCHES, 13), 1)
    ]
    for turn in np.random.default_rng(13).permutation(len(arrivals)):
        name, number, batch = arrivals[turn]
        with step(f"{name}, batch {number} of {BATCHES}: {batch.num_rows:,} updates"):
            spark.createDataFrame(batch).write.format("paimon-py").mode("append").save(str(path))

    spark.createDataFrame(load_airlines()).createOrReplaceTempView("airlines")
    print("\nWhat the feeds left")
    show_levels(path)
    with step("merge on read and aggregate"):
        merged = ask(spark, path)
    with step("compact every bucket"):
        PaimonTable.open(str(path)).compact(full=True)
    show_levels(path)
    with step("read without merging and aggregate"):
        answer = ask(spark, path)
    assert answer == merged

    print("\nOn time, by airline")
    spark.createDataFrame(answer).show(truncate=False)

    print("Is the table the source, row for row?")
    with step(f"compare {flights.num_rows:,} rows both ways"):
        table = spark.read.format("paimon-py").load(str(path))
        missing, extra = differences(spark.createDataFrame(flights), table.select(flights.column_names))
    if missing or extra:
        sys.exit(f"NO: {missing:,} rows are missing and {extra:,} should not be there. See {path}")
    print(f"Yes: {flights.num_rows:,} of {flights.num_rows:,} rows are equal. The table is in {path}")
    spark.stop()


def ask(spark: SparkSession, path: Path) -> list[Row]:
    """The question to the newest snapshot."""
    spark.read.format("paimon-py").load(str(path)).createOrReplaceTempView("flights")
    return spark.sql(ON_TIME).collect()


def show_levels(path: Path) -> None:
    """How many files and rows the levels of all buckets hold."""
    levels = PaimonTable.open(str(path)).levels().group_by("level").aggregate([("files", "sum"), ("rows", "sum")])
    for level in levels.sort_by("level").to_pylist():
        print(f"  level {level['level']}: {level['files_sum']:>4,} files {level['rows_sum']:>10,} rows")


def differences(source: DataFrame, table: DataFrame) -> tuple[int, int]:
    """How many rows only the source has, and how many only the table."""
    return source.exceptAll(table).count(), table.exceptAll(source).count()


if __name__ == "__main__":
    BUILD.mkdir(exist_ok=True)
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="flights-", dir=BUILD)))
