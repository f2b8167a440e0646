"""What a Spark program calls: ``paimon_spark.register`` and ``paimon_spark.read``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from paimon_spark.spark.options import COLUMNS, FILTERS, columns_json, filters_json
from paimon_spark.spark.source import PaimonDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def register(spark: SparkSession) -> None:
    """Make ``format("paimon-py")`` known to ``spark``; calling it again does nothing.

    Spark finds the installed package by itself. This is for packages that it cannot see at start, such as one added
    by ``addPyFile``.
    """
    _register(spark, PaimonDataSource)


def _register(spark: SparkSession, source: type[PaimonDataSource]) -> None:
    try:
        with _active(spark):
            spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses a name that it has already, also when it found the source by itself.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def read(
    spark: SparkSession,
    path: str,
    columns: Sequence[str] | None = None,
    filters: Iterable[Any] | None = None,
    **options: Any,
) -> DataFrame:
    """The table at ``path`` as a DataFrame that reads only ``columns`` and the rows that satisfy ``filters``.

    The same rows as ``spark.read.format("paimon-py")``, faster: parquet files that need no merging go through Spark's
    own reader, which also prunes columns and row groups for what the query does with the DataFrame, and so do all but
    the older versions of a few rows at level 0, which are looked for now; the rest goes through the Python source, or
    is read now where it is small. How many went which way is logged at level INFO as ``paimon_spark``, and shown in the
    plan. The columns of the DataFrame are nullable, as with all files that Spark reads.

    ``filters`` are (column, operator, value) tuples as in :mod:`paimon_spark.predicate`; ``options`` such as
    ``**{"scan.snapshot-id": "3"}`` are those of ``spark.read.format("paimon-py")``, and ``scan.native`` (``false``:
    everything through Python) and ``scan.native.broadcast-size`` (64 mb; files whose deletion vectors do not fit go
    through Python). The DataFrame keeps reading the snapshot that is newest now.

    :raises NotFound: there is no such table or snapshot; when the DataFrame is used: its snapshot has expired (the
        Python source says so in Spark's ``PythonException``)
    :raises InvalidInput: an unknown column, a filter or an option that does not fit, or records that the merge engine
        refuses
    :raises CorruptFile: a file that is read now is damaged
    """
    given = {key.lower(): _text(value) for key, value in options.items()} | {"path": path}
    if columns is not None:
        given[COLUMNS] = columns_json(columns)
    if filters is not None:
        given[FILTERS] = filters_json(filters)
    return _native(spark, given) or _source(spark, PaimonDataSource, given)


def _native(spark: SparkSession, options: Mapping[str, str]) -> DataFrame | None:
    """What ``options`` describe, as far as possible through Spark's own reader; None when that is not at all."""
    from paimon_spark.spark.native_local import local_rows
    from paimon_spark.spark.native_plan import NativePlan
    from paimon_spark.spark.native_rest import RestDataSource, pinned
    from paimon_spark.spark.native_scan import NativeScan, is_supported, is_within_reach, log_plan
    from paimon_spark.spark.opening import open_scan

    if not is_supported(spark):
        return None
    scan = open_scan(options)
    plan = NativePlan.of(scan, scan.splits)
    if not is_within_reach(spark, plan):
        plan = NativePlan(scan, scan.splits, ())
    if not plan.files:
        log_plan(plan)
        return None
    frame = NativeScan(spark, plan).begun()
    # Most of the rest is read while the driver still looks for older versions.
    rest = local_rows(spark, scan, plan.rest)
    if rest is None and plan.rest:
        rest = _source(spark, RestDataSource, {**options, **pinned(plan), COLUMNS: columns_json(scan.columns)})
    native: DataFrame = frame()
    log_plan(plan)
    return native if rest is None else native.union(rest)


def _source(spark: SparkSession, source: type[PaimonDataSource], options: Mapping[str, str]) -> DataFrame:
    _register(spark, source)
    return spark.read.format(source.name()).options(**options).load()


@contextmanager
def _active(session: Any) -> Iterator[None]:
    """Makes ``session`` the one that is active in this thread: Spark refuses a name that the active session knows."""
    if not isinstance(session, SparkSession):
        yield
        return
    sessions = type(session)._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(before.get()) if before.isDefined() else sessions.clearActiveSession()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
