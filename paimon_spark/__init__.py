"""Apache Paimon primary-key tables for PySpark, in pure Python.

``spark.read.format("paimon-py").load(path)`` and ``df.write.format("paimon-py")`` need nothing from here.
:class:`PaimonTable` works without Spark; :func:`register`, :func:`read`, :func:`write` and :func:`compact` are for
Spark sessions. Names are loaded when they are first used, so that a Spark worker pays only for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_spark.check.table_check import check
    from paimon_spark.errors import (
        CommitConflict,
        CommitStateUnknown,
        CorruptFile,
        InvalidInput,
        InvalidOption,
        NotFound,
        PaimonError,
        StorageError,
        UnsupportedFeature,
    )
    from paimon_spark.spark.bucket_write import write
    from paimon_spark.spark.compact_job import compact
    from paimon_spark.spark.session import read, register
    from paimon_spark.table import PaimonTable

__all__ = [
    "CommitConflict",
    "CommitStateUnknown",
    "CorruptFile",
    "InvalidInput",
    "InvalidOption",
    "NotFound",
    "PaimonError",
    "PaimonTable",
    "StorageError",
    "UnsupportedFeature",
    "check",
    "compact",
    "read",
    "register",
    "write",
]

_HOMES = {
    "PaimonTable": "paimon_spark.table",
    "check": "paimon_spark.check.table_check",
    "compact": "paimon_spark.spark.compact_job",
    "read": "paimon_spark.spark.session",
    "register": "paimon_spark.spark.session",
    "write": "paimon_spark.spark.bucket_write",
}

# The first import of a package below this one binds its name here, and some are called like functions. Once imported
# they never bind again, and the names are free.
for _name in ("check", "compact", "read", "write"):
    import_module(f"paimon_spark.{_name}")
    globals().pop(_name, None)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "paimon_spark.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
