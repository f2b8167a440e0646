"""``paimon_spark.write``: a write for clusters, where one task writes each bucket and one compacts it.

``df.write`` lets every task write to every bucket: with t tasks and b buckets that is up to t × b files, which the
driver then compacts alone. Here the rows are shuffled first, so that there are b files, and the executors compact.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import SparkSession

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.options import WRITE_ONLY
from paimon_spark.spark.bucket_owners import owned_by_bucket
from paimon_spark.spark.compact_job import compact_due
from paimon_spark.spark.opening import open_destination
from paimon_spark.spark.options import OWNED_BUCKETS
from paimon_spark.spark.session import register
from paimon_spark.spark.source import NAME
from paimon_spark.spark.types import written_schema

log = logging.getLogger("paimon_spark")


def write(df: Any, path: str, mode: str = "append", **options: Any) -> None:
    """Write the DataFrame ``df`` into the table at ``path``, each bucket by one task, and compact on the executors.

    The same as ``df.write.format("paimon-py").mode(mode).options(**options).save(path)``, but for three things. Rows of
    one key within ``df`` have no order, because of the shuffle: where that matters the table needs a
    ``sequence.field``. The commit refuses a bucket that two tasks wrote, should that ever happen. And afterwards all
    buckets of the table that need it are compacted as a Spark job, unless the table is ``write-only``; the write
    has been committed by then, so that if this fails it is a warning in the log and no error.

    :raises UnsupportedFeature: a Spark Connect session, or a feature of the table that this package does not write
    :raises InvalidInput: the rows or the options do not fit the table, or do not define a new one
    """
    spark = df.sparkSession
    if not isinstance(spark, SparkSession):
        raise UnsupportedFeature("a Spark Connect session cannot write bucket by bucket; use df.write instead")
    register(spark)
    given = {key.lower(): _text(value) for key, value in options.items()}
    given["path"] = path
    rows = written_schema(df.schema)
    table = open_destination(given, rows)
    table.new_write().check(rows)
    tasks = table.table_schema.bucket
    if table.table_schema.partition_keys:
        tasks = max(tasks, spark.sparkContext.defaultParallelism)
    owned = owned_by_bucket(df, table.table_schema, rows, tasks)
    del given["path"]
    owned.write.format(NAME).mode(mode).options(**given, **{OWNED_BUCKETS: "true"}).save(path)
    if table.table_schema.options.get_option(WRITE_ONLY):
        return
    try:
        compact_due(spark, table)
    except Exception as problem:
        log.warning("%s: the write is committed, but the compaction after it failed: %s", path, problem)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
