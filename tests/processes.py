"""Processes for tests: forked from a server that has imported what they need, so that each starts at once."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

# Pytest, because the tests import it; pandas, because pyarrow looks whether it is there when it makes arrays of lists.
_PRELOADED = [
    "pandas",
    "pytest",
    "paimon_spark.table",
    "paimon_spark.metadata.expiration",
    "paimon_spark.metadata.index_store",
    "paimon_spark.compact.compaction",
    "paimon_spark.compact.deletion_maintainer",
    "fastavro",
    "fastavro.write",
    "backports.zstd",
    "pyarrow.parquet",
    "pyarrow.pandas_compat",
]


def fork_server() -> ForkServerContext:
    """A context whose processes share nothing with this one but what they are given."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context
