"""What this package refuses to read or write, and options that a table cannot be given any more.

A feature that changes what bytes mean, or which rows are visible, is refused by name: guessing would give wrong rows.
Reading is refused less often than writing, because most options only concern what a writer makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_spark import options as known
from paimon_spark.errors import InvalidOption, UnsupportedFeature
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import (
    BUCKET_FUNCTION,
    BUCKET_KEY,
    CHANGELOG_PRODUCER,
    DEFAULT_AGGREGATE,
    EXTERNAL_PATHS,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    IMMUTABLE,
    MERGE_ENGINE,
    PARTITION,
    PRIMARY_KEY,
    Option,
    parse_bool,
    parse_names,
)
from paimon_spark.types import TIMESTAMPS, DataType

AGGREGATE_FUNCTION = ".aggregate-function"
LAST_NON_NULL = "last_non_null_value"
_MERGE_ENGINES = ("deduplicate", "partial-update")
_FIELDS = "fields."

# Options that must not be "true".
_REFUSED_WHEN_TRUE = (
    "pk-clustering-override",
    "row-tracking.enabled",
    "data-evolution.enabled",
    "chain-table.enabled",
    "primary-key.nullable",
    "query-auth.enabled",
)
# Options that must keep the value Paimon has by default.
_REFUSED_UNLESS = (("manifest.format", "avro"), ("type", "table"), ("branch", "main"))
_ENCRYPTION = ("encryption.", "parquet.encryption.", "parquet.crypto.", "orc.encrypt", "orc.mask")


def refuse_unsupported(schema: TableSchema, for_write: bool) -> None:
    """Refuse a table, under the options of ``schema``, whose rows this package would read or write wrongly.

    :raises UnsupportedFeature: names every feature in the way
    """
    features = list(_refused_always(schema))
    if for_write:
        features += _refused_for_write(schema)
    if features:
        verb = "written" if for_write else "read"
        raise UnsupportedFeature(f"the table cannot be {verb} by this package: " + "; ".join(features))


def _refused_always(schema: TableSchema) -> Iterator[str]:
    options = schema.options
    if not schema.primary_keys:
        yield "append tables (tables without primary key) are not supported"
    engine = options.get(MERGE_ENGINE.key, MERGE_ENGINE.default).strip().lower()
    if engine not in _MERGE_ENGINES:
        yield f"merge engine {engine!r} is not supported, {' and '.join(map(repr, _MERGE_ENGINES))} are"
    elif engine == "partial-update":
        yield from _columns_of_two_groups(schema)
        yield from _aggregates(schema)
    for key in _REFUSED_WHEN_TRUE:
        if _is_true(options.get(key)):
            yield f"{key!r} is not supported"
    for key, only in _REFUSED_UNLESS:
        value = options.get(key, only)
        if value.strip().lower() != only:
            yield f"{key!r} = {value!r} is not supported, only {only!r} is"
    if options.get("scan.fallback-branch"):
        yield "'scan.fallback-branch' is not supported"
    for key in options:
        if key.startswith(_ENCRYPTION):
            yield f"encryption ({key!r}) is not supported"


def _columns_of_two_groups(schema: TableSchema) -> Iterator[str]:
    """Sequence columns with another role in a group; which role wins depends on the order of Java's hash map."""
    names = [name for group in schema.sequence_groups for name in (*group.sequence, *group.protected)]
    sequence = {name for group in schema.sequence_groups for name in group.sequence}
    for name in sorted(sequence):
        if names.count(name) > 1:
            yield f"column {name!r}, which orders a sequence group, cannot be in another"


def _aggregates(schema: TableSchema) -> Iterator[str]:
    """Aggregate functions of a partial-update table, unless they say what happens without them anyway."""
    grouped = {column for group in schema.sequence_groups for column in group.protected}
    for key, function in schema.options.items():
        if not key.startswith(_FIELDS) or not key.endswith(AGGREGATE_FUNCTION):
            continue
        column = key[len(_FIELDS) : -len(AGGREGATE_FUNCTION)]
        if function.strip() != LAST_NON_NULL or column in grouped:
            yield f"aggregate function {function!r} of column {column!r} is not supported"
    default = schema.options.get_option(DEFAULT_AGGREGATE)
    if default is not None and (default.strip() != LAST_NON_NULL or grouped):
        where = f", which would apply to columns of sequence groups ({', '.join(sorted(grouped))})" if grouped else ""
        yield f"{DEFAULT_AGGREGATE.key!r} = {default!r}{where} is not supported"


def _refused_for_write(schema: TableSchema) -> Iterator[str]:
    yield from _refused_layout(schema)
    options = schema.options
    if options.get_option(CHANGELOG_PRODUCER) == "input":
        yield f"{CHANGELOG_PRODUCER.key!r} = 'input' needs changelog files, which are not written"
    if _is_true(options.get("sequence.snapshot-ordering")):
        yield "'sequence.snapshot-ordering' is not supported"
    mode = options.get("write.sequence-number-init-mode", "scan")
    if mode.strip().lower() != "scan":
        yield f"'write.sequence-number-init-mode' = {mode!r} is not supported, only 'scan' is"
    if "record-level.expire-time" in options:
        yield "'record-level.expire-time' is not supported"
    for field in schema.fields:
        if _has_fine_timestamp(field.type):
            yield (
                f"column {field.name!r} ({field.type}): timestamps of more than 6 digits cannot be written so that "
                "every Paimon release reads them; use TIMESTAMP(6)"
            )


def _refused_layout(schema: TableSchema) -> Iterator[str]:
    """Where a writer would have to put rows, and in which format."""
    options = schema.options
    if schema.bucket == -1:
        yield "dynamic buckets ('bucket' = '-1') are not written; a fixed number of buckets is"
    elif schema.bucket == -2:
        yield "postponed buckets ('bucket' = '-2') are not written; a fixed number of buckets is"
    if schema.crosses_partitions:
        missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
        yield f"keys that move between partitions are not supported: the primary key lacks partition columns {missing}"
    if options.get_option(BUCKET_FUNCTION) == "hive":
        yield f"{BUCKET_FUNCTION.key!r} = 'hive' is not supported"
    if options.get_option(EXTERNAL_PATHS):
        yield f"{EXTERNAL_PATHS.key!r} is not supported"
    formats = [(FILE_FORMAT.key, options.get_option(FILE_FORMAT))]
    formats += [(FILE_FORMAT_PER_LEVEL.key, name) for name in options.get_option(FILE_FORMAT_PER_LEVEL).values()]
    for key, name in formats:
        if name != "parquet":
            yield f"file format {name!r} ({key!r}) is not written, only 'parquet' is"


def _has_fine_timestamp(type_: DataType) -> bool:
    if type_.root in TIMESTAMPS:
        return (type_.precision or 0) > 6
    children = [child for child in (type_.key, type_.element) if child is not None]
    return any(_has_fine_timestamp(child) for child in (*children, *(f.type for f in type_.fields)))


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


# --------------------------------------------------------------------------- Immutable options

_IMMUTABLE_OPTIONS = {
    option.key: option for option in vars(known).values() if isinstance(option, Option) and option.immutable
}


def check_immutable(existing: TableSchema, given: Mapping[str, str]) -> None:
    """Refuse options that differ from those an existing table was made with and is bound to.

    Giving a table's own value again is fine, however it is spelled; so is giving a default it left out.

    :raises InvalidOption: names every such option with both values
    """
    problems = []
    for key in IMMUTABLE:
        if key not in given:
            continue
        table, wanted = _table_value(existing, key), _parsed(key, given[key])
        if table != wanted:
            problems.append(f"option {key!r} = {given[key]!r}, but the table has {_shown(table)}")
    if problems:
        raise InvalidOption(
            f"an existing table keeps some options for life: {'; '.join(problems)}. "
            "Leave them out, or create another table"
        )


def _table_value(schema: TableSchema, key: str) -> object:
    keys = {
        PRIMARY_KEY.key: schema.primary_keys,
        PARTITION.key: schema.partition_keys,
        BUCKET_KEY.key: schema.bucket_keys,
    }
    if key in keys:
        return keys[key]
    if key in schema.options:
        return _parsed(key, schema.options[key])
    return _IMMUTABLE_OPTIONS[key].default if key in _IMMUTABLE_OPTIONS else False


def _parsed(key: str, text: str) -> object:
    if key in (PRIMARY_KEY.key, PARTITION.key, BUCKET_KEY.key):
        return parse_names(text)
    parse = _IMMUTABLE_OPTIONS[key].parse if key in _IMMUTABLE_OPTIONS else parse_bool
    try:
        return parse(text)
    except ValueError as problem:
        raise InvalidOption(f"option {key!r} = {text!r}: {problem}") from None


def _shown(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return repr(",".join(value))
    return repr(str(value).lower() if isinstance(value, bool) else str(value))
