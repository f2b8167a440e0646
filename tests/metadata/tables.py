"""The tables that Java wrote: where they are, and what their schema files say."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.metadata.schema import TableSchema


def table_directories(root: Path) -> list[Path]:
    """All table directories below ``root``, sorted."""
    return sorted(path.parent.parent for path in root.rglob("schema/schema-0") if "branch" not in path.parts)


def newest_schema(table: Path) -> TableSchema:
    """The newest schema of a table directory."""
    path = max((table / "schema").glob("schema-*"), key=lambda p: int(p.name.removeprefix("schema-")))
    return TableSchema.parse(path.read_bytes(), str(path))
