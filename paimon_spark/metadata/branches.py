"""Branches: ``branch/branch-<name>`` holds schemas, snapshots and tags of its own over the files of the table."""

from __future__ import annotations

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.paths import TablePaths
from paimon_spark.metadata.schema import SchemaStore
from paimon_spark.metadata.table_metadata import TableMetadata

BRANCH_PREFIX = "branch-"


def branch_roots(metadata: TableMetadata) -> list[str]:
    """The directories of the table's branches.

    :raises CorruptFile: a branch without a schema
    """
    names = metadata.storage.directories(f"{metadata.root}/branch")
    roots = [f"{metadata.root}/branch/{name}" for name in names if name.startswith(BRANCH_PREFIX)]
    for root in roots:
        if not SchemaStore(metadata.storage, TablePaths(root)).ids():
            raise CorruptFile(root, "the branch has no schema")
    return roots
