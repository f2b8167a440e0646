"""How this package's errors reach the user of Spark: as one message.

When a Python data source raises, Spark shows the worker's whole traceback above the message. That is right for a
defect and wrong for "column x does not exist". A worker that reports an exception ends, so for errors that this
package raises on purpose it is told, with Spark's own switch (the environment variable behind
``spark.sql.execution.pyspark.udf.hideTraceback.enabled``), to report the message alone. Everything else keeps its
traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from paimon_spark.errors import PaimonError


@contextmanager
def readable() -> Iterator[None]:
    """Errors of this package that leave this context show the user their message and nothing else."""
    try:
        yield
    except PaimonError:
        if _in_worker():
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def _in_worker() -> bool:
    """Whether this process is one of Spark's Python workers, and not a program that uses the source directly."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
