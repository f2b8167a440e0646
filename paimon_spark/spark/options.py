"""What the options of a Spark read or write say: where the table is, what to read, how to write.

Spark hands option names over in lower case. Paimon's are lower case too, except that a few contain column names
(``fields.<column>.aggregate-function``, ``fields.<a>,<b>.sequence-group``): there the columns are told from the
schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paimon_spark.errors import InvalidInput, InvalidOption
from paimon_spark.options import DYNAMIC_PARTITION_OVERWRITE, SCAN_PREFIXES, Options
from paimon_spark.storage.credentials import table_options

COLUMNS, FILTERS = "columns", "filters"
OVERWRITE_MODE = "partitionoverwritemode"
OWNED_BUCKETS = "paimon-py.owned-buckets"
"""Set by ``paimon_spark.write``: every bucket's rows are in one task, and compaction is the caller's."""
_NO_NAMES = frozenset("/\\\0$")
_LOCATION = ("path", "paths", "warehouse", "table")
_OF_THIS_WRITE = (OVERWRITE_MODE, OWNED_BUCKETS, "mergeschema", "maxrecordsperfile")
_OF_THIS_CALL = frozenset((*_LOCATION, COLUMNS, FILTERS, *_OF_THIS_WRITE))
_REFUSED = {
    "replacewhere": "filter the DataFrame and use partitionOverwriteMode=dynamic instead",
    "overwriteschema": "a table's columns are not replaced by a write",
}


def table_path(options: Mapping[str, str]) -> str:
    """The directory of the table: ``path``, or ``warehouse`` and ``table`` (``<warehouse>/<db>.db/<table>``).

    :raises InvalidOption: neither, both, several paths, or a table name that is not ``db.table``
    """
    paths = json.loads(options["paths"]) if "paths" in options else []
    if "path" in options:
        paths = [*paths, options["path"]]
    if len(paths) > 1:
        raise InvalidOption(f"one path is expected, not {len(paths)}: load the tables one by one and union them")
    named = [key for key in ("warehouse", "table") if key in options]
    if paths and named:
        raise InvalidOption(f"give either the table's path or warehouse and table, not path and {' and '.join(named)}")
    if paths:
        return str(paths[0])
    if len(named) < 2:
        raise InvalidOption(
            "which table? Give its path, as in load(path) and save(path), or both of the options "
            "'warehouse' and 'table'"
        )
    parts = options["table"].split(".")
    if len(parts) != 2 or not all(part.strip() for part in parts) or not _NO_NAMES.isdisjoint(options["table"]):
        raise InvalidOption(
            f"option 'table' = {options['table']!r}: 'database.table' is expected; system tables and branches, which "
            "follow a $, are not supported"
        )
    return f"{options['warehouse'].rstrip('/')}/{parts[0]}.db/{parts[1]}"


def chosen_columns(options: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names in the option ``columns``, a comma list or a JSON list; None when it is not given.

    :raises InvalidOption: no name, or one twice
    """
    if COLUMNS not in options:
        return None
    text = options[COLUMNS]
    try:
        listed = text.lstrip().startswith("[")
        names = json.loads(text) if listed else [name.strip() for name in text.split(",")]
    except json.JSONDecodeError as problem:
        raise InvalidOption(f"option 'columns' is not valid JSON ({problem}): {text}") from None
    columns = tuple(str(name) for name in names)
    if not all(columns) or len(set(columns)) != len(columns):
        raise InvalidOption(f"option 'columns' = {text!r}: different column names are expected, such as 'a,b'")
    return columns


def read_options(options: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The Paimon options of a read, with the case of ``columns`` restored; they hold for this read alone.

    Options of the storage are not among them."""
    return {restore_case(k, columns): v for k, v in table_options(options).items() if k not in _OF_THIS_CALL}


def write_options(options: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The Paimon options of a write, with the case of ``columns`` restored, without those of reads.

    :raises InvalidOption: an option of another table format that would change the meaning of the write
    """
    for key, advice in _REFUSED.items():
        if key in options:
            raise InvalidOption(f"option {key!r} is not supported: {advice}")
    return {k: v for k, v in read_options(options, columns).items() if not k.startswith(SCAN_PREFIXES)}


def overwrites_dynamically(options: Mapping[str, str]) -> bool:
    """Whether an overwrite replaces only the partitions that it has rows for. Without an option it replaces all.

    :raises InvalidOption: ``partitionOverwriteMode`` is neither ``static`` nor ``dynamic``
    """
    mode = options.get(OVERWRITE_MODE)
    if mode is not None and mode.lower() not in ("static", "dynamic"):
        raise InvalidOption(f"option 'partitionOverwriteMode' = {mode!r}: 'static' or 'dynamic' is expected")
    if mode is not None:
        return mode.lower() == "dynamic"
    given = Options(options)
    return given.is_set(DYNAMIC_PARTITION_OVERWRITE) and given.get_option(DYNAMIC_PARTITION_OVERWRITE)


def restore_case(key: str, columns: Sequence[str]) -> str:
    """An option key such as ``fields.total.aggregate-function`` with its columns written as in ``columns``.

    :raises InvalidOption: two columns differ only in their case
    """
    prefix, _, rest = key.partition(".")
    names, _, suffix = rest.rpartition(".")
    if prefix.lower() != "fields" or not names:
        return key
    return f"fields.{','.join(_column(name, columns, key) for name in names.split(','))}.{suffix}"


def _column(name: str, columns: Sequence[str], key: str) -> str:
    if name in columns and name != name.lower():
        return name
    matches = [column for column in columns if column.lower() == name.lower()]
    if len(matches) > 1:
        raise InvalidOption(
            f"option {key!r}: Spark passes option names in lower case, so {name!r} may be any of the columns "
            f"{', '.join(matches)}; create the table with PaimonTable.create, which keeps the case"
        )
    return matches[0] if matches else name


def columns_json(columns: Iterable[str]) -> str:
    """Column names as the option ``columns`` takes them, whatever characters they contain."""
    return json.dumps(list(columns))


def filters_json(filters: Iterable[Any]) -> str:
    """Filters written as pyarrow writes them, as the JSON that the option ``filters`` takes.

    Dates and timestamps become ISO texts, decimals texts, bytes hexadecimal texts.

    :raises InvalidInput: a value of a type that no column has
    """
    return json.dumps(list(filters), default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "item"):
        return value.item()
    if hasattr(value, "as_tuple"):
        return str(value)
    raise InvalidInput(f"a filter cannot compare with {value!r}, a {type(value).__name__}")
