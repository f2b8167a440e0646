"""ParquetScan: exactly these files through Spark's own parquet reader, opened with as little work as there is.

``DataFrameReader.parquet`` asks the file system after every file twice, and every further step of a DataFrame analyses
the whole plan again. For a few files that is most of what it takes to open a scan. A :class:`PlannedScan` puts the plan
together of Spark's own classes, and has it analysed once. These are not public: where Spark has others, a
:class:`PublicScan` does the same through the public API, without conditions on rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from paimon_spark.spark.native_bitsets import contains, serialized
from paimon_spark.spark.native_jvm import (
    jvm_class,
    jvm_none,
    jvm_options,
    jvm_parser,
    jvm_paths,
    jvm_scala_map,
    jvm_seq,
    jvm_static,
    jvm_strings,
)

OPTIONS = (
    ("datetimeRebaseMode", "CORRECTED"),
    ("int96RebaseMode", "CORRECTED"),
    ("ignoreMissingFiles", "false"),
    ("ignoreCorruptFiles", "false"),
    ("recursiveFileLookup", "true"),
    ("__globPaths__", "false"),
    ("parquet.page.verify-checksum.enabled", "true"),
)
SOURCES = "org.apache.spark.sql.execution.datasources"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_DATASET = "org.apache.spark.sql.classic.Dataset"
_LOCAL = "file://"
# Sessions of a process that are remembered.
_SESSIONS = 16
_NO_COLUMNS = '{"type":"struct","fields":[]}'


def open_parquet(session: Any, schema: Any, paths: Sequence[str]) -> PlannedScan | PublicScan:
    """A scan of the files at ``paths``, local ones, that takes ``schema`` (a StructType) for theirs.

    :raises FileNotFoundError: a file is not there
    """
    kind = PlannedScan if is_planned(session) else PublicScan
    return kind.of(session, schema.json(), [_LOCAL + path for path in paths])


@lru_cache(_SESSIONS)
def is_planned(session: Any) -> bool:
    """Whether this Spark has the classes that a :class:`PlannedScan` is made of."""
    try:
        bit = contains(session, serialized([np.array([1 << 7])]), "0", "7", "")
        PlannedScan.of(session, _NO_COLUMNS, []).where(bit).select([])
        return bool(bit.eval(None))
    except (Py4JError, PySparkException, TypeError):
        return False


@dataclass(frozen=True)
class PlannedScan:
    """A logical plan of the JVM, not analysed."""

    session: Any
    plan: Any

    @classmethod
    def of(cls, session: Any, schema: str, uris: Sequence[str]) -> PlannedScan:
        """See :func:`open_parquet`; the schema is JSON."""
        jvm, spark = session.sparkContext._jvm, session._jsparkSession
        columns, none, options = spark.parseDataType(schema).asNullable(), jvm_none(jvm), jvm_scala_map(jvm, OPTIONS)
        cache = jvm_static(jvm, f"{SOURCES}.NoopCache$", "MODULE$")
        index = jvm_class(jvm, f"{SOURCES}.InMemoryFileIndex")
        files = index(spark, jvm_paths(jvm, uris), options, none, cache, none, none)
        # Spark leaves out files that are not there.
        if (found := files.allFiles().size()) != len(uris):
            raise FileNotFoundError(f"of {len(uris)} files, {len(uris) - found} do not exist{_first_missing(uris)}")
        no_columns, format_ = spark.parseDataType(_NO_COLUMNS), jvm_class(jvm, f"{SOURCES}.parquet.ParquetFileFormat")()
        relation = jvm_class(jvm, f"{SOURCES}.HadoopFsRelation")(
            files, no_columns, columns, none, format_, options, spark
        )
        return cls(session, jvm_static(jvm, f"{SOURCES}.LogicalRelation$", "MODULE$").apply(relation, False))

    def where(self, condition: Any) -> PlannedScan:
        """With the rows that satisfy ``condition``, an expression of Catalyst."""
        filtered = jvm_class(self.session.sparkContext._jvm, f"{_PLANS}.Filter")
        return replace(self, plan=filtered(condition, self.plan))

    def select(self, columns: Sequence[str]) -> Any:
        """The DataFrame of ``columns``, in SQL."""
        jvm, spark = self.session.sparkContext._jvm, self.session._jsparkSession
        chosen = jvm_seq(jvm)
        if columns:
            chosen = jvm_parser(jvm).parsePlan(f"SELECT {', '.join(columns)}").projectList()
        plan = jvm_class(jvm, f"{_PLANS}.Project")(chosen, self.plan)
        return DataFrame(jvm_static(jvm, _DATASET, "ofRows")(spark, plan), self.session)


@dataclass(frozen=True)
class PublicScan:
    """A DataFrame of all columns."""

    frame: Any

    @classmethod
    def of(cls, session: Any, schema: str, uris: Sequence[str]) -> PublicScan:
        """See :func:`open_parquet`; the schema is JSON."""
        jvm, spark = session.sparkContext._jvm, session._jsparkSession
        reader = spark.read().options(jvm_options(jvm, OPTIONS)).schema(spark.parseDataType(schema))
        try:
            return cls(DataFrame(reader.parquet(jvm_strings(jvm, uris)), session))
        except AnalysisException as missing:
            if missing.getCondition() != "PATH_NOT_FOUND":
                raise
            raise FileNotFoundError(missing.getMessage()) from None

    def select(self, columns: Sequence[str]) -> Any:
        """The DataFrame of ``columns``, in SQL."""
        return self.frame.selectExpr(*columns)


def _first_missing(uris: Sequence[str]) -> str:
    missing = (path for path in (uri.removeprefix(_LOCAL) for uri in uris) if not Path(path).exists())
    return "".join(f", first of them {path}" for path in islice(missing, 1))
