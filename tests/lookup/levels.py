"""A bucket of real data files, and what lookups in it must find."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.writer import RollingWriter
from paimon_spark.lookup import Bucket, LookupDirectory, LookupFileCache, LookupHits, LookupLevels, ValueProcessor
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import Options
from paimon_spark.storage.local import LocalStorage
from paimon_spark.types import DataField, arrow_type, parse_type

STORAGE = LocalStorage()
FIELDS = (
    DataField(0, "k", parse_type("BIGINT NOT NULL")),
    DataField(1, "n", parse_type("STRING NOT NULL")),
    DataField(2, "v", parse_type("DOUBLE")),
    DataField(3, "s", parse_type("STRING")),
)
Row = tuple[int, str, float | None, str | None]


def schema_of(kind: str = "sort", **options: str) -> TableSchema:
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return TableSchema(0, FIELDS, 3, (), ("k", "n"), Options({"lookup.local-file-type": kind, **named}))


class Levels:
    """A bucket in a directory, and what its files hold."""

    def __init__(self, root: Path, schema: TableSchema, bucket: int = 0) -> None:
        self.directory = root / f"bucket-{bucket}"
        self.schema = schema
        self.files: list[DataFile] = []
        self.rows: dict[str, list[Row]] = {}
        self.sequences: dict[str, int] = {}
        self._sequence = 0

    def add(self, level: int, rows: list[Row], name: str | None = None) -> DataFile:
        """One file of rows (any order), all newer than those added before; of that name, if one is given."""
        rows = sorted(rows, key=lambda row: (row[0], row[1]))
        columns = list(zip(*rows, strict=True))
        values = pa.table(
            [pa.array(column, arrow_type(field.type)) for column, field in zip(columns, FIELDS, strict=True)],
            names=["k", "n", "v", "s"],
        )
        sequence = np.arange(self._sequence, self._sequence + len(rows))
        writer = RollingWriter(STORAGE, str(self.directory), self.schema, self.schema.options, level, 0)
        writer.write(KeyValues(values, sequence))
        (file,) = writer.close()
        if name is not None:
            (self.directory / file.name).rename(self.directory / name)
            file = file._replace(name=name)
        self.files.append(file)
        self.rows[file.name] = rows
        self.sequences[file.name] = self._sequence
        self._sequence += len(rows)
        return file

    def bucket(self) -> Bucket:
        directory = str(self.directory)
        return Bucket(directory, STORAGE, self.schema, lambda file: f"{directory}/{file.name}", lambda _: self.schema)

    def open(self, processor: ValueProcessor, cache: LookupFileCache) -> LookupLevels:
        return LookupLevels(self.bucket(), self.files, processor, cache)

    def expected(self, key: tuple[int, str], start: int, deleted: dict[str, set[int]]) -> tuple[str, int, Row] | None:
        """File name, position and row of the newest version at ``start`` or below that is not deleted."""
        newest_first = sorted(self.files, key=lambda f: (f.level, -f.max_sequence))
        for file in newest_first:
            if file.level >= start:
                for position, row in enumerate(self.rows[file.name]):
                    if row[:2] == key and position not in deleted.get(file.name, ()):
                        return file.name, position, row
        return None


def cache_in(path: Path, max_bytes: int | None = None, memory: int = 1 << 24) -> LookupFileCache:
    path.mkdir(exist_ok=True)
    return LookupFileCache(LookupDirectory(str(path)), LookupMemory(memory), max_bytes)


def columns_of(keys: Sequence[tuple[int, str]]) -> list[pa.Array]:
    return [pa.array([k for k, _ in keys], pa.int64()), pa.array([n for _, n in keys], pa.string())]


def random_levels(root: Path, schema: TableSchema, seed: int) -> Levels:
    """Levels 0 to 3: overlapping files on level 0, disjoint ones below."""
    rng = random.Random(seed)
    levels = Levels(root, schema)
    domain = [(k, n) for k in range(-30, 60) for n in ("", "a", "a\x00", "long name " * 3)]
    for level in (3, 2, 1):
        chosen = sorted(rng.sample(domain, 150))
        for start in range(0, 150, 50):
            levels.add(level, [(*key, rng.random(), rng.choice([None, "x", ""])) for key in chosen[start : start + 50]])
    for _ in range(3):
        levels.add(0, [(*key, None, "newest") for key in rng.sample(domain, 40)])
    return levels


def names_of(hits: LookupHits) -> list[str | None]:
    """The name of the file of each key's answer."""
    return [hits.files[number].name if number >= 0 else None for number in hits.file.tolist()]
