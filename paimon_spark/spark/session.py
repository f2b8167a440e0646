"""What a Spark program calls: ``paimon_spark.register`` and ``paimon_spark.read``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from paimon_spark.spark.options import COLUMNS, FILTERS, columns_json, filters_json
from paimon_spark.spark.source import NAME, PaimonDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession) -> None:
    """Make ``format("paimon-py")`` known to ``spark``; calling it again does nothing.

    Spark finds the installed package by itself. This is for packages that it cannot see at start, such as one added
    by ``addPyFile``.
    """
    try:
        spark.dataSource.register(PaimonDataSource)
    except AnalysisException as error:
        # Spark 4.0 refuses a name that it has already, also when it found the source by itself.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def read(
    spark: SparkSession,
    path: str,
    columns: Sequence[str] | None = None,
    filters: Iterable[Any] | None = None,
    **options: str,
) -> DataFrame:
    """The table at ``path`` as a DataFrame that reads only ``columns`` and the rows that satisfy ``filters``.

    ``filters`` are (column, operator, value) tuples as in :mod:`paimon_spark.predicate`; ``options`` such as
    ``**{"scan.snapshot-id": "3"}`` are those of ``spark.read.format("paimon-py")``. The DataFrame keeps reading the
    snapshot that is newest now.

    :raises InvalidInput: a filter compares with something that no column holds
    """
    register(spark)
    reader = spark.read.format(NAME).options(**options)
    if columns is not None:
        reader = reader.option(COLUMNS, columns_json(columns))
    if filters is not None:
        reader = reader.option(FILTERS, filters_json(filters))
    return reader.load(path)
