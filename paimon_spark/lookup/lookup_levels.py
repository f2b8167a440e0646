"""LookupLevels: where, from a level on downwards, is the newest older version of a key?

Level 0 is searched newest file first, among the files whose range holds the key; each level below is one sorted run,
in which a binary search names the one file that can hold it. The search stops at the nearest hit. A file is asked
through its lookup file, which is built from it the first time (``lookup_file_cache``) and holds *all* its rows, under
their physical positions: what is deleted is decided at the lookup, by the deletion vector that the file has then. A
lookup file therefore never goes stale, and a hit on a deleted row is no hit: the search goes on below.

A lookup file outlives the process that built it, and is found again by its name::

    <bucket>-<data file>-<all that the content depends on>-<bucket and data file, readable>.<processor>.<kind>

The first three are hashes. So whoever opens a bucket can drop the files of data files that it no longer has, whoever
built them, by one listing. A data file that only another worker knows loses its lookup file that way as well; the
worker goes on reading, or builds it again.

Source: ``LookupLevels``, ``LookupUtils`` of Apache Paimon.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.arrays import is_valid, strings, to_arrow
from paimon_spark.errors import CorruptFile, InvalidInput
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.reader import read_data_file
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.file_index import FileIndex
from paimon_spark.lookup.hash_writer import HashWriter
from paimon_spark.lookup.lookup_directory import DAMAGED, LOG
from paimon_spark.lookup.lookup_file_cache import LookupFileCache, LookupSource
from paimon_spark.lookup.lookup_options import (
    BLOOM_FILTER_ENABLED,
    BLOOM_FILTER_FPP,
    CACHE_PAGE_SIZE,
    CACHE_SPILL_COMPRESSION,
    HASH_LOAD_FACTOR,
    LOCAL_FILE_TYPE,
    SPILL_ZSTD_LEVEL,
)
from paimon_spark.lookup.sort_writer import SortWriter
from paimon_spark.lookup.store_reader import StoreReader
from paimon_spark.lookup.stores import HashLookupStore, SortLookupStore
from paimon_spark.lookup.value_processor import ValueProcessor
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.deletion_vector import DeletionVector
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.rows.byte_strings import Int32s, Int64s, Mask, joined_strings
from paimon_spark.storage.storage import Storage
from paimon_spark.types import arrow_type

CurrentVectors = Callable[[str], DeletionVector | None]


@dataclass(frozen=True)
class Bucket:
    """One bucket of a table, as far as lookups need it: where its files are and how they were written.

    ``name`` tells the bucket from all others on this machine, of all tables (such as its directory's path); ``path``
    gives a data file's full path; ``data_schema`` the schema of an id.
    """

    name: str
    storage: Storage
    schema: TableSchema
    path: Callable[[DataFile], str]
    data_schema: Callable[[int], TableSchema]


@dataclass(frozen=True)
class LookupHits:
    """The answers to a batch of n keys.

    ``file`` (n numbers) names each hit's file by its place in ``files``, -1 where the key was not found.
    ``positions`` (n numbers, or None when positions are not kept) are row positions in those files. ``rows`` (None
    when no columns are kept) are the rows of the keys found, in the order of the keys.
    """

    files: tuple[DataFile, ...]
    file: Int32s
    positions: Int64s | None
    rows: KeyValues | None

    @property
    def found(self) -> Mask:
        """Which keys were found."""
        mask: Mask = self.file >= 0
        return mask


class LookupLevels:
    """The files of one bucket by level, searched through their lookup files."""

    def __init__(
        self, bucket: Bucket, files: Sequence[DataFile], processor: ValueProcessor, cache: LookupFileCache
    ) -> None:
        """Look into ``files``, all files of the bucket; ``processor`` says what is remembered of a row."""
        self._bucket = bucket
        self._processor = processor
        self._cache = cache
        self._types = [field.type for field in bucket.schema.key_fields]
        self._index = FileIndex(self._types)
        self._prefix = _hash(bucket.name) + "-"
        self._used: set[str] = set()
        self._names: set[str] = set()
        self._levels: dict[int, list[DataFile]] = {}
        self._arrange(files)
        self._drop_dead()

    def update(self, files: Sequence[DataFile]) -> None:
        """The bucket's files are these now. Lookup files of files that are gone are deleted; a file that only moved to
        another level keeps its own."""
        before = self._names
        self._arrange(files)
        if before - self._names:
            self._drop_dead()

    def _arrange(self, files: Sequence[DataFile]) -> None:
        self._names = {file.name for file in files}
        levels: dict[int, list[DataFile]] = {}
        for file in files:
            levels.setdefault(file.level, []).append(file)
        for level, members in levels.items():
            if level == 0:
                members.sort(key=attrgetter("age"))
            else:
                levels[level] = self._index.sort(members)
        self._levels = dict(sorted(levels.items()))

    def lookup(self, key: Sequence[object], start_level: int, vectors: CurrentVectors | None = None) -> LookupHits:
        """:meth:`lookup_many` for the values of one key."""
        try:
            columns = [pa.array([value], arrow_type(type_)) for value, type_ in zip(key, self._types, strict=True)]
        except (pa.ArrowException, ValueError, OverflowError, TypeError) as problem:
            types = ", ".join(map(str, self._types))
            raise InvalidInput(f"{key!r} is no key of ({types}): {problem}") from problem
        return self.lookup_many(columns, start_level, vectors)

    def lookup_many(
        self, keys: Sequence[pa.Array], start_level: int, vectors: CurrentVectors | None = None
    ) -> LookupHits:
        """The newest version of each key at ``start_level`` or below.

        ``keys`` are the columns of the trimmed primary key. ``vectors`` gives the deletion vector that the file of a
        name has now; rows that it deletes are not found. Keys in ascending order are the fastest.

        :raises InvalidInput: the columns are not those of the key, or have nulls; a file has a deletion vector, but
            positions are not kept; what is remembered of the rows found has 2 GiB or more
        :raises NotFound: a data file is gone
        :raises CorruptFile: a data file is damaged
        :raises StorageError: the local disk is full or fails
        """
        self._check(keys)
        search = _Search(self._index.keys(keys))
        for level, files in self._levels.items():
            if level < start_level or not search.open.size:
                continue
            if level == 0:
                for file in files:
                    rows = search.open[self._index.inside(file, search.keys.take(to_arrow(search.open)))]
                    self._ask(file, rows, search, vectors)
            else:
                numbers = self._index.file_of(files, search.keys.take(to_arrow(search.open)))
                for number in np.unique(numbers[numbers < len(files)]).tolist():
                    self._ask(files[number], search.open[numbers == number], search, vectors)
            search.close_found()
        return search.hits(self._processor)

    def _check(self, keys: Sequence[pa.Array]) -> None:
        """Refuse what are no columns of keys."""
        fields = self._bucket.schema.key_fields
        if len(keys) != len(fields) or len(set(map(len, keys))) > 1:
            names, lengths = ", ".join(field.name for field in fields), list(map(len, keys))
            raise InvalidInput(
                f"keys are columns of one length for each of ({names}), not columns of lengths {lengths}"
            )
        for field, column in zip(fields, keys, strict=True):
            if column.null_count:
                raise InvalidInput(
                    f"column {field.name} has {column.null_count} nulls, which no key has; leave them out"
                )

    def drop_file(self, name: str) -> None:
        """The data file of that name is gone: delete its lookup files, whoever built them."""
        self._drop(self._cache.directory.names(f"{self._prefix}{_hash(name)}-"))

    def close(self, keep: bool = False) -> None:
        """Delete the lookup files of this bucket, whoever built them; with ``keep``, close them and leave them to
        whoever comes next."""
        if keep:
            for name in self._used:
                self._cache.release(name)
            self._used.clear()
        else:
            self._drop([*self._used, *self._cache.directory.names(self._prefix)])

    def _drop_dead(self) -> None:
        """Delete the lookup files of data files that the bucket does not have."""
        live = {_hash(name) for name in self._names}
        found = self._cache.directory.names(self._prefix)
        self._drop([name for name in found if name.removeprefix(self._prefix).split("-")[0] not in live])

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._cache.drop(name)
            self._used.discard(name)

    def _ask(self, file: DataFile, rows: Int64s, search: _Search, vectors: CurrentVectors | None) -> None:
        """Ask one file for the keys numbered ``rows``, and note the hits that are not deleted."""
        if not len(rows):
            return
        values = self._values(file, search.keys.take(to_arrow(rows)))
        found = is_valid(values)
        if not found.any():
            return
        rows, values = rows[found], values.drop_null()
        vector = None if vectors is None else vectors(file.name)
        if vector is not None:
            alive = ~self._deleted(values, vector)
            rows, values = rows[alive], values.filter(to_arrow(alive))
        search.add(file, rows, values)

    def _values(self, file: DataFile, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each key in one file, null where absent. A lookup file that turns out to be damaged is built
        again, once."""
        source = self._source(file)
        self._used.add(source.name)
        with self._cache.use(source) as lookup_file:
            try:
                return lookup_file.get_many(keys)
            except CorruptFile as problem:
                LOG.warning("lookup file %s is built again: %s", source.name, problem)
        self._cache.drop(source.name, DAMAGED)
        with self._cache.use(source) as lookup_file:
            return lookup_file.get_many(keys)

    def _deleted(self, values: pa.BinaryArray, vector: DeletionVector) -> Mask:
        positions = self._processor.decode(values).positions
        if positions is None:
            raise InvalidInput("a file with a deletion vector can only be looked up where positions are kept")
        marked = vector.bitmap & BitMap(positions.astype(np.uint32))
        return np.isin(positions, np.frombuffer(marked.to_array(), np.uint32))

    def _source(self, file: DataFile) -> LookupSource:
        bucket, processor = self._bucket, self._processor
        kind = bucket.schema.options.get_option(LOCAL_FILE_TYPE)
        content = (bucket.name, file.name, file.schema_id, kind, processor, self._index.order.name)
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", f"{bucket.name[-40:]}-{file.name[-80:]}")
        name = f"{self._prefix}{_hash(file.name)}-{_hash(repr(content))}-{readable}.{processor.name}.{kind}"
        return LookupSource(name, bucket.path(file), lambda path: self._build(file, path), self._open)

    def _open(self, path: str, memory: LookupMemory) -> StoreReader:
        if self._bucket.schema.options.get_option(LOCAL_FILE_TYPE) == "hash":
            return HashLookupStore.reader(path, cache=memory)
        return SortLookupStore.reader(path, cache=memory, order=self._index.order)

    def _build(self, file: DataFile, path: str) -> None:
        """Make the lookup file of ``file`` at ``path``."""
        bucket, processor = self._bucket, self._processor
        key_fields = bucket.schema.key_fields
        wanted = {field.name: field for field in (*key_fields, *(processor.fields or ()))}
        writer = self._writer(path, file.row_count)
        try:
            position = 0
            for rows in read_data_file(
                bucket.storage,
                bucket.path(file),
                file,
                data_schema=bucket.data_schema(file.schema_id),
                fields=list(wanted.values()),
                sequence=processor.fields is not None,
                kind=processor.fields is not None,
            ):
                keys = self._index.keys([rows.values.column(field.name) for field in key_fields])
                positions = np.arange(position, position + len(rows))
                writer.put_many(keys, processor.encode(rows, positions))
                position += len(rows)
            writer.close()
        except InvalidInput as problem:
            writer.abort()
            raise CorruptFile(bucket.path(file), f"no lookup file can be made of its rows: {problem}") from problem
        except BaseException:
            writer.abort()
            raise

    def _writer(self, path: str, rows: int) -> HashWriter | SortWriter:
        options = self._bucket.schema.options
        rate = options.get_option(BLOOM_FILTER_FPP) if options.get_option(BLOOM_FILTER_ENABLED) else None
        compression = options.get_option(CACHE_SPILL_COMPRESSION)
        page, level = options.get_option(CACHE_PAGE_SIZE), options.get_option(SPILL_ZSTD_LEVEL)
        if options.get_option(LOCAL_FILE_TYPE) == "hash":
            load = options.get_option(HASH_LOAD_FACTOR)
            return HashLookupStore.writer(path, rows, rate, compression, page, load, zstd_level=level)
        return SortLookupStore.writer(path, rows, rate, compression, page, self._index.order, zstd_level=level)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class _Search:
    """A batch of keys on its way down the levels: those still open, and the hits so far."""

    def __init__(self, keys: pa.BinaryArray) -> None:
        self.keys = keys
        self.open: Int64s = np.arange(len(keys))
        self._file: Int32s = np.full(len(keys), -1, np.int32)
        self._files: list[DataFile] = []
        self._rows: list[Int64s] = []
        self._values: list[pa.BinaryArray] = []

    def add(self, file: DataFile, rows: Int64s, values: pa.BinaryArray) -> None:
        if len(rows):
            self._file[rows] = len(self._files)
            self._files.append(file)
            self._rows.append(rows)
            self._values.append(values)
            if file.level == 0:
                self.close_found()

    def close_found(self) -> None:
        self.open = self.open[self._file[self.open] < 0]

    def hits(self, processor: ValueProcessor) -> LookupHits:
        values = joined_strings(self._values) if self._values else strings([], pa.binary())
        rows = np.concatenate([np.empty(0, np.int64), *self._rows])
        remembered = processor.decode(values)
        positions = None
        if remembered.positions is not None:
            positions = np.full(len(self.keys), -1, np.int64)
            positions[rows] = remembered.positions
        kept = None if remembered.rows is None else remembered.rows.take(np.argsort(rows))
        return LookupHits(tuple(self._files), self._file, positions, kept)
