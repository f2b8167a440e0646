"""Spark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``: hence
``format("paimon-py")`` works without a call. One module that fails here would take all other sources with it."""

import contextlib

with contextlib.suppress(Exception):
    from paimon_spark.spark.source import PaimonDataSource as DefaultSource

    __all__ = ["DefaultSource"]
