"""Validation of a new table: every rule that a table definition must keep, all violations in one message.

Java refuses the same definitions when it creates or alters a table. What Java allows but this package does not
implement is refused elsewhere (:mod:`paimon_spark.metadata.unsupported`).

Source: ``SchemaValidation``, ``PartialUpdateMergeFunction.Factory`` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from paimon_spark import options as known
from paimon_spark.errors import InvalidInput, InvalidOption
from paimon_spark.metadata.schema import SEQUENCE_GROUP, SequenceGroup, TableSchema
from paimon_spark.options import (
    BUCKET,
    BUCKET_KEY,
    CHANGELOG_PRODUCER,
    DEFAULT_AGGREGATE,
    DELETION_VECTORS,
    IGNORE_DELETE,
    REMOVE_RECORD_ON_DELETE,
    REMOVE_RECORD_ON_SEQUENCE_GROUP,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    STATS_MODE,
    Option,
)
from paimon_spark.types import NESTED, DataType

SYSTEM_COLUMNS = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})
KEY_PREFIX = "_KEY_"
_AGGREGATE = ".aggregate-function"
_STATS_MODE = re.compile(r"none|counts|full|truncate\([1-9][0-9]{0,8}\)")
_COUNT = re.compile("[1-9][0-9]{0,9}")
_MAX_INT = 2**31 - 1


def validate_new_table(schema: TableSchema) -> None:
    """Check a table definition.

    :raises InvalidOption: options contradict each other or the columns; the message names every problem
    :raises InvalidInput: columns or keys are wrong; the message names every problem, those of options too
    """
    columns = [*_column_problems(schema), *_key_problems(schema)]
    unreadable = list(_unreadable_options(schema))
    # Rules about options read their values, so they wait until every value can be read.
    options = unreadable or [*_option_problems(schema)]
    if columns or options:
        kind = InvalidInput if columns else InvalidOption
        raise kind("the table cannot be created: " + "; ".join([*columns, *options]))


# --------------------------------------------------------------------------- Columns and keys


def _column_problems(schema: TableSchema) -> Iterator[str]:
    names = [f.name for f in schema.fields]
    if not names:
        yield "it has no columns"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"column {name!r} is there twice; rename one"
    for field in schema.fields:
        if not field.name.strip():
            yield f"a column is named {field.name!r}; give it a name"
        if field.name in SYSTEM_COLUMNS or field.name.startswith(KEY_PREFIX):
            yield f"column {field.name!r} has the name of a system column; rename it"
        yield from _type_problems(field.name, field.type)


def _type_problems(column: str, type_: DataType) -> Iterator[str]:
    if type_.root == "DECIMAL":
        precision, scale = type_.precision or 0, type_.scale or 0
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            yield f"column {column!r}: {type_} needs 1 to 38 digits, of which 0 to all follow the point"
    if type_.length is not None and type_.length < 1:
        yield f"column {column!r}: {type_} needs a length of at least 1"
    for child in (type_.key, type_.element, *(f.type for f in type_.fields)):
        if child is not None:
            yield from _type_problems(column, child)


def _key_problems(schema: TableSchema) -> Iterator[str]:
    types = {f.name: f.type for f in schema.fields}
    for kind, keys in (("primary-key", schema.primary_keys), ("partition", schema.partition_keys)):
        for name in sorted({name for name in keys if keys.count(name) > 1}):
            yield f"{kind} column {name!r} is named twice; name it once"
        for name in keys:
            if name not in types:
                yield f"{kind} column {name!r} does not exist; the columns are {', '.join(types)}"
            elif types[name].root in NESTED:
                yield f"{kind} column {name!r} has type {types[name]}; a column of an atomic type is needed"
    if schema.primary_keys and not schema.trimmed_primary_keys:
        yield f"the primary key {list(schema.primary_keys)} consists of partition columns; add a column that is none"


# --------------------------------------------------------------------------- Options


def _unreadable_options(schema: TableSchema) -> Iterator[str]:
    for option in vars(known).values():
        if isinstance(option, Option):
            try:
                schema.options.get_option(option)
            except InvalidOption as problem:
                yield str(problem)
    for key, text in schema.options.items():
        is_stats_mode = key == STATS_MODE.key or (key.startswith("fields.") and key.endswith(".stats-mode"))
        if is_stats_mode and not _STATS_MODE.fullmatch(text.strip().lower()):
            yield f"option {key!r} = {text!r}: one of none, counts, full, truncate(<length>) is expected"


def _option_problems(schema: TableSchema) -> Iterator[str]:
    yield from _bucket_problems(schema)
    yield from _changelog_problems(schema)
    yield from _sequence_field_problems(schema)
    yield from _field_option_problems(schema)
    yield from _retention_problems(schema)
    yield from _sequence_group_problems(schema)
    if schema.merge_engine == "partial-update":
        yield from _partial_update_problems(schema)
    rowkind = schema.options.get_option(ROWKIND_FIELD)
    if rowkind is not None:
        roots = {f.name: f.type.root for f in schema.fields}
        if roots.get(rowkind) != "VARCHAR":
            found = "does not exist" if rowkind not in roots else f"has type {roots[rowkind]}"
            yield f"option {ROWKIND_FIELD.key!r} = {rowkind!r}: the column {found}; name a STRING column"


def _bucket_problems(schema: TableSchema) -> Iterator[str]:
    bucket = schema.bucket
    if bucket == 0 or bucket < -2:
        yield f"option {BUCKET.key!r} = '{bucket}': a number of at least 1 is expected"
    if bucket == -1 and BUCKET_KEY.key in schema.options:
        yield f"option {BUCKET_KEY.key!r} contradicts 'bucket' = '-1' (dynamic buckets); leave it out or fix 'bucket'"
    for name in schema.bucket_keys:
        if name not in schema.trimmed_primary_keys:
            key = ", ".join(schema.trimmed_primary_keys)
            yield (
                f"option {BUCKET_KEY.key!r} names {name!r}, which is not among the primary-key columns that do not "
                f"partition ({key}); separate names by commas without blanks"
            )
    if bucket != -1 and schema.primary_keys and schema.crosses_partitions:
        missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
        yield f"the primary key lacks partition columns {missing}, so {BUCKET.key!r} must be '-1'; add them to the key"


def _changelog_problems(schema: TableSchema) -> Iterator[str]:
    options, producer = schema.options, schema.options.get_option(CHANGELOG_PRODUCER)
    reads_overwrites = options.get("streaming-read-overwrite", "false").strip().lower() == "true"
    if producer in ("lookup", "full-compaction") and reads_overwrites:
        yield (
            f"option 'streaming-read-overwrite' = 'true' contradicts {CHANGELOG_PRODUCER.key!r} = {producer!r}: "
            "changes would be read twice; leave one out"
        )
    if producer == "lookup" and "full-compaction.delta-commits" in options:
        yield f"option 'full-compaction.delta-commits' contradicts {CHANGELOG_PRODUCER.key!r} = 'lookup'; leave one out"
    if options.get_option(DELETION_VECTORS) and producer == "full-compaction":
        yield (
            f"option {DELETION_VECTORS.key!r} = 'true' contradicts {CHANGELOG_PRODUCER.key!r} = 'full-compaction'; "
            "use 'lookup' or 'none'"
        )


def _sequence_field_problems(schema: TableSchema) -> Iterator[str]:
    names = schema.options.get_option(SEQUENCE_FIELD)
    yield from _unknown(schema, f"option {SEQUENCE_FIELD.key!r}", names)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"option {SEQUENCE_FIELD.key!r} names {name!r} twice; name it once"
    for name in names:
        key = f"fields.{name}{_AGGREGATE}"
        if key in schema.options:
            yield f"option {key!r} aggregates a column of {SEQUENCE_FIELD.key!r}; leave one out"
    if names and schema.crosses_partitions:
        yield f"option {SEQUENCE_FIELD.key!r} needs a primary key that contains all partition columns"


def _field_option_problems(schema: TableSchema) -> Iterator[str]:
    """``fields.<c>.<what>`` names columns that exist (sequence groups are checked on their own)."""
    for key in schema.options:
        if key.startswith("fields.") and key != DEFAULT_AGGREGATE.key and not key.endswith(SEQUENCE_GROUP):
            column = key[len("fields.") :].rpartition(".")[0]
            yield from _unknown(schema, f"option {key!r}", [column])


def _retention_problems(schema: TableSchema) -> Iterator[str]:
    """Counts of what to keep: minimum <= maximum. Those of changelogs default to those of snapshots."""
    defaults = ("10", str(_MAX_INT))
    for prefix in ("snapshot", "changelog"):
        keys = (f"{prefix}.num-retained.min", f"{prefix}.num-retained.max")
        low, high = (schema.options.get(key, default).strip() for key, default in zip(keys, defaults, strict=True))
        if not all(_COUNT.fullmatch(text) for text in (low, high)):
            yield f"options {keys[0]!r} = {low!r} and {keys[1]!r} = {high!r}: whole numbers of at least 1 are expected"
            return
        if int(low) > int(high):
            yield f"option {keys[0]!r} ({low}) is greater than {keys[1]!r} ({high})"
            return
        defaults = (low, high)


# --------------------------------------------------------------------------- Partial update


def _sequence_group_problems(schema: TableSchema) -> Iterator[str]:
    owner: dict[str, SequenceGroup] = {}
    for group in schema.sequence_groups:
        where = f"option {_group_key(group)!r}"
        yield from _unknown(schema, where, [*group.sequence, *group.protected])
        for name in group.protected:
            if name in owner:
                yield f"{where} protects {name!r}, which {_group_key(owner[name])!r} protects already; keep one"
            owner[name] = group
        for name in (*group.sequence, *group.protected):
            if name in schema.primary_keys:
                yield f"{where} names primary-key column {name!r}; leave it out"
        for name in group.sequence:
            if f"fields.{name}{_AGGREGATE}" in schema.options:
                yield f"option 'fields.{name}{_AGGREGATE}' aggregates a sequence column of a group; leave it out"


def _partial_update_problems(schema: TableSchema) -> Iterator[str]:
    options, groups = schema.options, schema.sequence_groups
    on_delete = options.get_option(REMOVE_RECORD_ON_DELETE)
    on_group = options.get_option(REMOVE_RECORD_ON_SEQUENCE_GROUP)
    if options.get_option(IGNORE_DELETE) and (on_delete or on_group):
        key = REMOVE_RECORD_ON_DELETE.key if on_delete else REMOVE_RECORD_ON_SEQUENCE_GROUP.key
        yield f"options {IGNORE_DELETE.key!r} and {key!r} contradict each other; leave one out"
    if on_delete and groups:
        yield (
            f"option {REMOVE_RECORD_ON_DELETE.key!r} contradicts sequence groups ({_group_key(groups[0])!r}); "
            f"use {REMOVE_RECORD_ON_SEQUENCE_GROUP.key!r}"
        )
    sequence = {name for group in groups for name in group.sequence}
    for name in on_group:
        if name not in sequence:
            known_names = ", ".join(sorted(sequence)) or "none"
            yield (
                f"option {REMOVE_RECORD_ON_SEQUENCE_GROUP.key!r} names {name!r}, which is no group's sequence column "
                f"(those are: {known_names})"
            )
    yield from _ungrouped_aggregates(schema)


def _ungrouped_aggregates(schema: TableSchema) -> Iterator[str]:
    """An aggregate function needs a sequence group, because without one nobody knows what was aggregated already."""
    free = {*schema.primary_keys, *schema.options.get_option(SEQUENCE_FIELD)}
    for group in schema.sequence_groups:
        free.update(group.sequence, group.protected)
    default = schema.options.get_option(DEFAULT_AGGREGATE)
    for field in schema.fields:
        key = f"fields.{field.name}{_AGGREGATE}"
        function = schema.options.get(key, default)
        if field.name not in free and function not in (None, "last_non_null_value"):
            source = key if key in schema.options else DEFAULT_AGGREGATE.key
            yield (
                f"option {source!r} = {function!r} aggregates column {field.name!r}, which is in no sequence group; "
                "put it in one (fields.<sequence column>.sequence-group)"
            )


def _group_key(group: SequenceGroup) -> str:
    return f"fields.{','.join(group.sequence)}{SEQUENCE_GROUP}"


def _unknown(schema: TableSchema, where: str, names: Sequence[str]) -> Iterator[str]:
    columns = [f.name for f in schema.fields]
    for name in names:
        if name not in columns:
            hint = " (names are separated by commas without blanks)" if name.strip() in columns else ""
            yield f"{where} names column {name!r}, which does not exist{hint}; the columns are {', '.join(columns)}"
