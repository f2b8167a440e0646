"""RestDataSource: the part of a native read that must be merged.

It is the Python source, told by two options which snapshot and schema the driver planned with; it makes the same plan
(:mod:`paimon_spark.spark.native_plan`) and reads what that leaves. :func:`paimon_spark.read` uses it and nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.failures import readable
from paimon_spark.spark.native_plan import NativePlan
from paimon_spark.spark.options import FILTERS, chosen_columns, read_options, table_path
from paimon_spark.spark.reader import PaimonReader, scan_schema
from paimon_spark.spark.source import NAME, PaimonDataSource
from paimon_spark.storage.credentials import storage_options
from paimon_spark.table import PaimonTable

REST = f"{NAME}-rest"
_SNAPSHOT, _SCHEMA = "native.snapshot", "native.schema"


@dataclass(frozen=True)
class RestScan(Scan):
    """A scan whose splits are those that the native plan leaves."""

    @cached_property
    def splits(self) -> list[Split]:
        """What Spark's own reader does not read."""
        return list(NativePlan.of(self, super().splits).rest)


def pinned(scan: Scan) -> dict[str, str]:
    """The options that make the rest source read the snapshot and the schema of ``scan``."""
    assert scan.snapshot is not None
    return {_SNAPSHOT: scan.snapshot.serialize().decode(), _SCHEMA: str(scan.table_schema.id)}


def rest_scan(options: Mapping[str, str]) -> RestScan:
    """The scan that the driver planned, told by its options.

    :raises PaimonError: the table or that schema is gone
    """
    table = PaimonTable.open(table_path(options), storage_options(options))
    metadata = table.metadata
    schema = metadata.schemas.get(int(options[_SCHEMA]))
    given = read_options(options, [f.name for f in schema.fields])
    schema = schema.with_options(schema.options.merged(given))
    snapshot = Snapshot.parse(options[_SNAPSHOT].encode(), metadata.paths.root)
    scan = Scan.of(metadata, schema, snapshot, chosen_columns(options), options.get(FILTERS))
    return RestScan(**{f.name: getattr(scan, f.name) for f in fields(Scan)})


class RestDataSource(PaimonDataSource):
    """Reads what a native read leaves; see the module."""

    @classmethod
    def name(cls) -> str:
        """The name that the plan shows."""
        return REST

    def schema(self) -> Any:
        """The columns of the scan."""
        with readable():
            self._scan = rest_scan(self.options)
            return scan_schema(self._scan)

    def reader(self, schema: Any) -> PaimonReader:
        """A reader of the rest."""
        with readable():
            return PaimonReader.of(self._scan or rest_scan(self.options), schema)
