"""TableMetadata: the door to everything that a table directory says about itself.

Manifests and indexes are imported when they are asked for: a worker that reads or writes data files does without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from paimon_spark.metadata.locations import bucket_directory
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import SchemaStore, TableSchema
from paimon_spark.metadata.snapshot import SnapshotStore
from paimon_spark.options import EXTERNAL_PATHS
from paimon_spark.storage.locate import mounted
from paimon_spark.storage.storage import Storage

if TYPE_CHECKING:
    from paimon_spark.metadata.index_store import IndexStore
    from paimon_spark.metadata.manifest_store import ManifestStore


@dataclass(frozen=True)
class TableMetadata:
    """The metadata of the table in directory ``root``. Holds nothing open and travels between processes."""

    storage: Storage
    root: str

    @property
    def paths(self) -> TablePaths:
        """Where the table's files are."""
        return TablePaths(self.root)

    @cached_property
    def schemas(self) -> SchemaStore:
        """The table's schemas; those that were read are remembered."""
        return SchemaStore(self.storage, self.paths)

    @property
    def snapshots(self) -> SnapshotStore:
        """The table's snapshots and tags."""
        return SnapshotStore(self.storage, self.paths)

    @property
    def manifests(self) -> ManifestStore:
        """The table's manifests and manifest lists."""
        from paimon_spark.metadata.manifest_store import ManifestStore

        return ManifestStore(self.storage, self.paths)

    @property
    def indexes(self) -> IndexStore:
        """The table's index manifests and deletion vectors."""
        from paimon_spark.metadata.index_store import IndexStore

        return IndexStore(self.storage, self.paths, self.schemas)

    def reaching(self, schema: TableSchema, options: Mapping[str, str]) -> TableMetadata:
        """The same, with a storage that also reads what ``schema`` keeps in others; ``options`` have their credentials.

        :raises InvalidOption: an option of a storage contradicts itself
        """
        directories = schema.options.get_option(EXTERNAL_PATHS)
        return replace(self, storage=mounted(self.storage, directories, options)) if directories else self

    def bucket_directory(self, schema: TableSchema, partition: bytes, bucket: int) -> str:
        """The directory of a bucket's data files; ``partition`` is a serialized BinaryRow."""
        return bucket_directory(self.paths, schema, partition, bucket)
