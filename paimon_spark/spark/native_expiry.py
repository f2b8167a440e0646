"""How a native scan whose files vanish says so: as an expired snapshot, like any other read of a table.

Where a file is gone, Spark's parquet reader fails with FAILED_READ_FILE.FILE_NOT_EXIST, whenever the DataFrame, or what
was made of it, is used. All errors of the JVM become Python's in one function of pyspark, ``convert_exception``, that
nothing can be added to: the first native scan of a process puts a function around it. This one looks for that error,
and for the path in it among the scans of the process; whatever else comes along, it leaves to pyspark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.errors.exceptions import captured

from paimon_spark.files.key_values import Int64Array
from paimon_spark.read.scan import Scan
from paimon_spark.spark.native_hash import file_number
from paimon_spark.spark.native_plan import NativeFile

# Remembered scans of a process, each some kilobytes and 8 bytes a file; earlier ones keep Spark's own error.
_SCANS = 256
_CAUSES = 16
_CONDITION = "FAILED_READ_FILE.FILE_NOT_EXIST"


class _Remembered(NamedTuple):
    """A scan, without what it has planned, and the numbers of its files."""

    scan: Scan
    files: Int64Array

    def reads(self, path: str) -> bool:
        """Whether the file at ``path`` is one of them."""
        inside = path.startswith(f"{self.scan.metadata.paths.root}/")
        return inside and file_number(path.rpartition("/")[2]) in self.files


_scans: deque[_Remembered] = deque(maxlen=_SCANS)


def explain_expiry(scan: Scan, files: Sequence[NativeFile]) -> None:
    """From now on it is reported as :meth:`Scan.expired` says it when one of ``files`` of ``scan`` is missing.

    Files outside of the table's directory are not recognised.
    """
    numbers = np.fromiter((file.number for file in files), np.int64, len(files))
    _scans.append(_Remembered(replace(scan, predicate=None), numbers))
    if not hasattr(captured.convert_exception, "explains_expiry"):
        captured.convert_exception = _explaining(captured.convert_exception)


def _explaining(convert: Callable[[Any], Exception]) -> Callable[[Any], Exception]:
    """``convert``, which makes Python's exception of the JVM's, but for missing files of remembered scans."""

    def convert_exception(error: Any) -> Exception:
        path = _missing_file(error)
        scan = None if path is None else _scan_of(path)
        return convert(error) if scan is None else scan.expired(f"file {path} does not exist")

    convert_exception.explains_expiry = True  # type: ignore[attr-defined]
    return convert_exception


def _missing_file(error: Any) -> str | None:
    """The path of the file that is missing, when that caused the exception ``error`` of the JVM."""
    for _ in range(_CAUSES):
        if error is None:
            break
        is_sparks = is_instance_of(SparkContext._gateway, error, "org.apache.spark.SparkThrowable")
        if is_sparks and error.getCondition() == _CONDITION:
            return unquote(str(error.getMessageParameters().get("path"))).removeprefix("file://")
        error = error.getCause()
    return None


def _scan_of(path: str) -> Scan | None:
    """A scan of the file at ``path``, if possible one whose snapshot is gone."""
    scans = [known.scan for known in tuple(_scans) if known.reads(path)]
    return next((scan for scan in scans if scan.is_expired), scans[-1] if scans else None)
