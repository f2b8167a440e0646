"""RestDataSource: the part of a native read that must be merged.

It is the Python source, told by options which snapshot and schema the driver planned with, and which older versions it
found; it makes the same plan (:mod:`paimon_spark.spark.native_plan`), which a fingerprint proves, and reads what that
leaves. :func:`paimon_spark.read` uses it and nobody else. Older versions are told as JSON::

    [[number of the split, of the section in it, {name of a file: roaring bitmap of positions, as Base64}], …]
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from pyroaring import BitMap

from paimon_spark.errors import InvalidInput
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.failures import readable
from paimon_spark.spark.native_level0 import Place, Positions
from paimon_spark.spark.native_plan import NativePlan
from paimon_spark.spark.options import FILTERS, chosen_columns, read_options, table_path
from paimon_spark.spark.reader import PaimonReader, scan_schema
from paimon_spark.spark.source import NAME, PaimonDataSource
from paimon_spark.storage.credentials import storage_options
from paimon_spark.table import PaimonTable

REST = f"{NAME}-rest"
_SNAPSHOT, _SCHEMA, _OLDER, _FILES = "native.snapshot", "native.schema", "native.older", "native.files"


@dataclass(frozen=True)
class RestScan(Scan):
    """A scan whose splits are those that the native plan leaves. Tasks, which read splits and plan none, get a plain
    scan."""

    older: Mapping[Place, Positions] = field(default_factory=dict)
    fingerprint: str = ""

    @cached_property
    def splits(self) -> list[Split]:
        """What Spark's own reader does not read.

        :raises InvalidInput: the driver has given Spark other files than this plan would
        """
        plan = NativePlan.of(self, super().splits, self.older)
        if plan.fingerprint != self.fingerprint:
            raise InvalidInput(
                f"the driver and a Python worker planned the read of snapshot {self.snapshot_id} of "
                f"{self.metadata.paths.root} differently: let both run one version of paimon_spark, or set "
                "'scan.native' to false"
            )
        return list(plan.rest)

    def __reduce__(self) -> Any:
        return Scan, tuple(getattr(self, f.name) for f in fields(Scan))


def pinned(plan: NativePlan) -> dict[str, str]:
    """The options that make the rest source read what ``plan`` leaves of its scan."""
    assert plan.scan.snapshot is not None
    return {
        _SNAPSHOT: plan.scan.snapshot.serialize().decode(),
        _SCHEMA: str(plan.scan.table_schema.id),
        _OLDER: _older_json(plan.older),
        _FILES: plan.fingerprint,
    }


def _older_json(older: Mapping[Place, Positions]) -> str:
    return json.dumps(
        [
            [*place, {name: b64encode(rows.serialize()).decode() for name, rows in positions.items()}]
            for place, positions in older.items()
        ]
    )


def _parse_older(text: str) -> dict[Place, Positions]:
    return {
        (split, section): {name: BitMap.deserialize(b64decode(rows)) for name, rows in positions.items()}
        for split, section, positions in json.loads(text)
    }


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
    own = {f.name: getattr(scan, f.name) for f in fields(Scan)}
    return RestScan(**own, older=_parse_older(options[_OLDER]), fingerprint=options[_FILES])


class RestDataSource(PaimonDataSource):
    """Reads what a native read leaves; see the module."""

    @classmethod
    def name(cls) -> str:
        """The name that the plan shows."""
        return REST

    def schema(self) -> Any:
        """The columns of the scan."""
        with readable():
            return scan_schema(rest_scan(self.options))

    def reader(self, schema: Any) -> PaimonReader:
        """A reader of the rest."""
        with readable():
            return PaimonReader.of(rest_scan(self.options), schema)
