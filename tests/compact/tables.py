"""Small tables to compact, and how to look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.compact.bucket_state import BucketState, bucket_states
from paimon_spark.table import PaimonTable

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("op", pa.string())])
FILLER = 1_000_000
VECTORS = {"deletion-vectors.enabled": "true", "bucket": "1", "rowkind.field": "op"}


def new_table(path: Path, **options: str) -> PaimonTable:
    """A table of SCHEMA with key k and deletion vectors in one bucket; ``__`` in an option's name is a dot, ``_`` a
    dash."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return PaimonTable.create(str(path), SCHEMA, ["k"], options={**VECTORS, **named})


def rows(*values: tuple[Any, ...]) -> pa.Table:
    """Rows of (k, a, b), and the kind, +I unless given."""
    full = [(*value, "+I") if len(value) == 3 else value for value in values]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in full], SCHEMA)


def filler(count: int = 3000) -> pa.Table:
    """Rows that make a file large, so that small ones do not join it; their keys are above all that tests speak of."""
    keys = range(FILLER, FILLER + count)
    return rows(*((k, k * 7919 % 10_007, f"filler {k * 104_729 % 10_007}") for k in keys))


def content(table: PaimonTable, **options: str) -> list[tuple[Any, ...]]:
    """(k, a, b) of all rows but the filler, by k."""
    read = table.read(["k", "a", "b"], [("k", "<", FILLER)], options).sort_by("k")
    return list(zip(*(column.to_pylist() for column in read.columns), strict=True))


def raw_content(table: PaimonTable) -> list[tuple[Any, ...]]:
    """The same of what needs no merging: levels from 1 up."""
    return content(table, **{"deletion-vectors.merge-on-read": "false"})


def shape(table: PaimonTable) -> list[tuple[int, int]]:
    """(level, rows) of each file."""
    files = table.files()
    return sorted(zip(files["level"].to_pylist(), files["record_count"].to_pylist(), strict=True))


def state_of(table: PaimonTable) -> BucketState:
    """The only bucket of a table."""
    snapshot = table.snapshot()
    assert snapshot is not None
    (state,) = bucket_states(table.metadata, snapshot, lambda partition, bucket: True).values()
    return state


def deleted(table: PaimonTable) -> dict[int, list[int]]:
    """The deleted positions in the files of the only bucket, by the level of the file."""
    from paimon_spark.metadata.deletion_vector import read_deletion_vector

    state = state_of(table)
    files = {entry.file.name: entry.file for entry in state.entries}
    return {
        files[name].level: read_deletion_vector(table.metadata.storage, ref, files[name].row_count).positions().tolist()
        for name, ref in state.vectors.items()
    }


def files_on_disk(table: PaimonTable) -> set[str]:
    """The names of all data and index files, whether a snapshot knows them or not."""
    root = Path(table.path)
    return {p.name for p in [*root.rglob("data-*"), *(root / "index").glob("index-*")]}


def files_in_snapshot(table: PaimonTable) -> set[str]:
    """The names of the data and index files of the newest snapshot."""
    snapshot = table.snapshot()
    indexes = {entry.name for entry in table.metadata.indexes.of_snapshot(snapshot).entries}
    return indexes | {path.rsplit("/", 1)[1] for path in table.files()["file_path"].to_pylist()}
