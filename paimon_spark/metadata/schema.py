"""TableSchema and SchemaStore: the columns, keys and options of a table, one JSON file per version.

``schema/schema-<id>``, ids from 0, never changed once written::

    {"version": 3, "id": 0, "fields": [{"id", "name", "type", "description"?, "defaultValue"?}…],
     "highestFieldId", "partitionKeys": […], "primaryKeys": […], "options": {…}, "comment"?, "timeMillis"}

The newest schema is the one with the greatest id in the directory. Two rules keep old files meaning what they
meant: a file of version 1 without ``bucket`` has one bucket, a file of version 1 or 2 without ``file.format`` has
ORC files.

Source: ``TableSchema``, ``SchemaSerializer``, ``SchemaManager``, ``Schema`` of Apache Paimon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from paimon_spark.errors import CorruptFile, InvalidInput, InvalidOption, NotFound, UnsupportedFeature
from paimon_spark.metadata.json_object import SIZE_LIMIT, JsonObject, to_json
from paimon_spark.metadata.paths import SCHEMA_PREFIX, TablePaths, listed_id
from paimon_spark.options import BUCKET, BUCKET_KEY, FILE_FORMAT, MERGE_ENGINE, PARTITION, PRIMARY_KEY, Options
from paimon_spark.storage.storage import Storage
from paimon_spark.types import DataField, DataType, field_named, fields_to_json, parse_fields

VERSION = 3
SEQUENCE_GROUP = ".sequence-group"
MAX_TYPE_DEPTH = 100
_ORC_UNTIL, _ONE_BUCKET_UNTIL = 2, 1
_TOO_DEEP = "a column's type is nested too deeply"


@dataclass(frozen=True)
class SequenceGroup:
    """Columns of a partial-update table that only a record with a newer ``sequence`` may change."""

    sequence: tuple[str, ...]
    protected: tuple[str, ...]


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's definition.

    ``fields`` are all columns in table order. ``highest_field_id`` is the greatest id ever given to a column or a
    member of a ROW, dropped ones included. ``time_millis`` is when the version was made, in epoch milliseconds.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Options
    comment: str | None = None
    time_millis: int = 0

    def field(self, name: str) -> DataField:
        """The column of that exact name.

        :raises InvalidInput: no such column
        """
        return field_named(self.fields, name)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary-key columns without partition columns, in primary-key order: the key within a bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The columns of the trimmed primary key, in its order."""
        return tuple(self.field(name) for name in self.trimmed_primary_keys)

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in the order of the partition keys."""
        return tuple(self.field(name) for name in self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns whose values choose a row's bucket: option ``bucket-key``, else the trimmed primary key.

        Names in the option are separated by commas alone; a blank belongs to the name.
        """
        given = self.options.get(BUCKET_KEY.key)
        return tuple(given.split(",")) if given else self.trimmed_primary_keys

    @cached_property
    def sequence_groups(self) -> tuple[SequenceGroup, ...]:
        """The groups of options ``fields.<s1>[,<s2>…].sequence-group``. As in Java, a blank belongs to a name."""
        groups = []
        for key, value in self.options.items():
            if key.startswith("fields.") and key.endswith(SEQUENCE_GROUP):
                sequence = key[len("fields.") : -len(SEQUENCE_GROUP)]
                groups.append(SequenceGroup(tuple(sequence.split(",")), tuple(value.split(","))))
        return tuple(groups)

    @property
    def merge_engine(self) -> str:
        """``deduplicate``, ``partial-update``, ``aggregation`` or ``first-row``."""
        return self.options.get_option(MERGE_ENGINE)

    @property
    def bucket(self) -> int:
        """Number of buckets of a partition; -1 dynamic, -2 postponed."""
        return self.options.get_option(BUCKET)

    @property
    def crosses_partitions(self) -> bool:
        """Whether a key may move between partitions, because the primary key lacks a partition column."""
        return not set(self.partition_keys) <= set(self.primary_keys)

    def with_options(self, options: Options) -> TableSchema:
        """The same schema under other options, for one read or write."""
        return replace(self, options=options)

    def serialize(self) -> bytes:
        """The content of its schema file."""
        return to_json(
            {
                "version": VERSION,
                "id": self.id,
                "fields": fields_to_json(self.fields),
                "highestFieldId": self.highest_field_id,
                "partitionKeys": list(self.partition_keys),
                "primaryKeys": list(self.primary_keys),
                "options": dict(self.options),
                "comment": self.comment,
                "timeMillis": self.time_millis,
            }
        )

    @staticmethod
    def parse(data: bytes, path: str) -> TableSchema:
        """The schema in a file's content; ``path`` is what errors name.

        :raises CorruptFile: not a schema
        :raises UnsupportedFeature: its version, or a column's type, is unknown to this package
        """
        json = JsonObject.parse(data, path)
        version = json.known_version(VERSION)
        schema = TableSchema(
            json.integer("id"),
            _parse_columns(json),
            json.integer("highestFieldId"),
            json.texts("partitionKeys"),
            json.texts("primaryKeys"),
            _options_of_version(json.optional_mapping("options") or {}, version),
            json.optional_text("comment"),
            json.integer("timeMillis", default=0),
        )
        names = [column.name for column in schema.fields]
        twice = {name for name, count in Counter(names).items() if count > 1}
        if twice:
            raise CorruptFile(path, f"columns {sorted(twice)} are there twice")
        known = set(names)
        unknown = [name for name in (*schema.primary_keys, *schema.partition_keys) if name not in known]
        if unknown:
            raise CorruptFile(path, f"key columns {unknown} are not among the columns {names}")
        return schema


def _parse_columns(json: JsonObject) -> tuple[DataField, ...]:
    try:
        fields = parse_fields(json.array("fields"))
    except UnsupportedFeature as problem:
        raise UnsupportedFeature(f"{json.path}: {problem}") from None
    except InvalidInput as problem:
        raise CorruptFile(json.path, str(problem)) from None
    except RecursionError:
        raise CorruptFile(json.path, _TOO_DEEP) from None
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise CorruptFile(json.path, f"key 'fields' holds something that is not a column: {problem!r}") from None
    if any(_is_deeper(f.type, MAX_TYPE_DEPTH) for f in fields):
        raise CorruptFile(json.path, _TOO_DEEP)
    return fields


def _is_deeper(type_: DataType, levels: int) -> bool:
    children = (type_.key, type_.element, *(f.type for f in type_.fields))
    return levels == 0 or any(_is_deeper(child, levels - 1) for child in children if child is not None)


def _options_of_version(options: dict[str, str], version: int) -> Options:
    if version <= _ONE_BUCKET_UNTIL:
        options.setdefault(BUCKET.key, "1")
    if version <= _ORC_UNTIL:
        options.setdefault(FILE_FORMAT.key, "orc")
    return Options(options)


def new_table_schema(
    fields: Iterable[DataField],
    highest_id: int,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, str],
    comment: str | None,
    time_millis: int,
) -> TableSchema:
    """The first schema of a new table, made at ``time_millis``, normalised as Java does; not yet validated.

    Keys may be given as arguments or as options ``primary-key`` and ``partition``, which the file does not hold.
    Primary-key columns become NOT NULL. ``file.format`` and ``bucket`` are always written: other engines differ in
    what they take for granted. Without a ``bucket`` the table gets one bucket, where Java would make it dynamic
    (-1), because this package does not write dynamic buckets.

    :raises InvalidOption: keys are given twice, and differ
    """
    remaining = {key: value for key, value in options.items() if key not in (PRIMARY_KEY.key, PARTITION.key, "path")}
    given = Options(options)
    primary = _keys(primary_keys, given.get_option(PRIMARY_KEY), PRIMARY_KEY.key)
    partition = _keys(partition_keys, given.get_option(PARTITION), PARTITION.key)
    remaining.setdefault(BUCKET.key, "1")
    remaining.setdefault(FILE_FORMAT.key, FILE_FORMAT.default)
    columns = tuple(replace(f, type=f.type.not_null()) if f.name in primary else f for f in fields)
    return TableSchema(0, columns, highest_id, partition, primary, Options(remaining), comment, time_millis)


def _keys(argument: Sequence[str], option: tuple[str, ...], key: str) -> tuple[str, ...]:
    if argument and option and tuple(argument) != option:
        raise InvalidOption(f"option {key!r} names {list(option)}, the argument {list(argument)}; give one of them")
    return tuple(argument) or option


@dataclass(frozen=True)
class SchemaStore:
    """The schema files of a table."""

    storage: Storage
    paths: TablePaths
    _cache: dict[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)

    def ids(self) -> list[int]:
        """The ids of all schemas, ascending."""
        names = (file.name for file in self.storage.list(self.paths.schema_directory))
        return sorted(id_ for name in names if (id_ := listed_id(name, SCHEMA_PREFIX)) is not None)

    def latest(self) -> TableSchema | None:
        """The newest schema; None when there is no table."""
        ids = self.ids()
        return self.get(ids[-1]) if ids else None

    def get(self, schema_id: int) -> TableSchema:
        """The schema of that id.

        :raises NotFound: no such schema
        :raises CorruptFile: the file is not a schema, or another one
        """
        schema = self._cache.get(schema_id)
        if schema is None:
            path = self.paths.schema_file(schema_id)
            try:
                data = self.storage.read(path, SIZE_LIMIT)
            except NotFound:
                raise NotFound(f"schema {schema_id} of table {self.paths.root} does not exist ({path})") from None
            schema = TableSchema.parse(data, path)
            if schema.id != schema_id:
                raise CorruptFile(path, f"it holds schema {schema.id}")
            self._cache[schema_id] = schema
        return schema

    def create(self, schema: TableSchema) -> bool:
        """Publish a schema; False when its id is taken, and then nothing is written.

        :raises StorageError: the storage did not say whether it was published
        """
        return self.storage.put_if_absent(self.paths.schema_file(schema.id), schema.serialize())
