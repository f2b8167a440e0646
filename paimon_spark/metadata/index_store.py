"""IndexStore: the index manifests of one table, and where its index files are."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.avro import FILE_LIMIT
from paimon_spark.metadata.deletion_vector import DeletionVector, encode_vectors
from paimon_spark.metadata.external_path import external_file
from paimon_spark.metadata.index_manifest import (
    DELETION_VECTORS,
    IndexEntry,
    IndexManifest,
    read_index_manifest,
    write_index_manifest,
)
from paimon_spark.metadata.index_manifest_file import IndexManifestFile
from paimon_spark.metadata.locations import bucket_directory
from paimon_spark.metadata.manifest import ADD
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import SchemaStore, TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.vector_range import DeletionVectorRef
from paimon_spark.options import INDEX_IN_DATA_DIR, MANIFEST_COMPRESSION
from paimon_spark.storage.storage import Storage

VectorRefs = dict[tuple[bytes, int], dict[str, DeletionVectorRef]]


@dataclass(frozen=True)
class IndexStore:
    """Reads and writes index manifests and files of deletion vectors."""

    storage: Storage
    paths: TablePaths
    schemas: SchemaStore

    def of_snapshot(self, snapshot: Snapshot | None) -> IndexManifest:
        """The index files of a snapshot.

        :raises NotFound: the snapshot expired meanwhile
        :raises CorruptFile: see :func:`read_index_manifest`; or the file is not as long as the snapshot records
        """
        file = IndexManifestFile.of(snapshot)
        if file is None:
            return IndexManifest()
        path = self.paths.manifest(file.name)
        data = self.storage.read(path, FILE_LIMIT)
        if file.size is not None and len(data) != file.size:
            raise CorruptFile(path, f"it has {len(data)} bytes, where its snapshot recorded {file.size}")
        return read_index_manifest(data, path)

    def deletion_vectors(self, snapshot: Snapshot) -> VectorRefs:
        """For each (partition, bucket) that has deletion vectors: where they are, by data file name.

        :raises CorruptFile: also when two vectors are for one file, or an index file claims to lie elsewhere
        """
        refs: VectorRefs = {}
        entries = [e for e in self.of_snapshot(snapshot).entries if e.index_type == DELETION_VECTORS]
        if not entries:
            return refs
        schema = self._schema()
        for entry in entries:
            path = self.index_path(entry, schema)
            bucket = refs.setdefault((entry.partition, entry.bucket), {})
            for r in entry.ranges or ():
                if r.file in bucket:
                    raise CorruptFile(path, f"data file {r.file} has two deletion vectors")
                bucket[r.file] = DeletionVectorRef(r.file, path, r.offset, r.length, r.cardinality)
        return refs

    def index_path(self, entry: IndexEntry, schema: TableSchema) -> str:
        """The full path of an index file. Raises as :func:`external_file`."""
        if entry.external_path is not None:
            return external_file(entry.external_path, self.paths.root, schema.options)
        if schema.options.get_option(INDEX_IN_DATA_DIR):
            directory = bucket_directory(self.paths, schema, entry.partition, entry.bucket)
            return self.paths.index_file(entry.name, directory)
        return self.paths.index_file(entry.name)

    def write_vectors(
        self,
        partition: bytes,
        bucket: int,
        vectors: Mapping[str, DeletionVector],
        schema: TableSchema,
        wide: bool = False,
    ) -> IndexEntry:
        """Write the deletion vectors of a bucket, by data file name, to a new index file; its entry, to be committed.

        ``wide`` writes the 64-bit form (option ``deletion-vectors.bitmap64``).
        """
        data, ranges = encode_vectors(vectors, wide)
        entry = IndexEntry(
            ADD, partition, bucket, DELETION_VECTORS, f"index-{uuid.uuid4()}-0", len(data), len(ranges), ranges
        )
        self.storage.write(self.index_path(entry, schema), data)
        return entry

    def write(self, manifest: IndexManifest, schema: TableSchema) -> IndexManifestFile:
        """Write an index manifest; its name and size."""
        name = f"index-manifest-{uuid.uuid4()}-0"
        data = write_index_manifest(manifest, schema.options.get_option(MANIFEST_COMPRESSION))
        self.storage.write(self.paths.manifest(name), data)
        return IndexManifestFile(name, len(data))

    def _schema(self) -> TableSchema:
        schema = self.schemas.latest()
        if schema is None:
            raise CorruptFile(self.paths.root, "the table has snapshots but no schema")
        return schema
