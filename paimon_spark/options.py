"""Table and scan options: Paimon's names, defaults and value syntax.

Values on disk and from users are strings; an :class:`Option` knows how to read one. Options that this package
has no use for are kept in the schema untouched, because other engines do have a use for them.

Source: ``CoreOptions`` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from paimon_spark.errors import InvalidOption

T = TypeVar("T")

KB, MB, GB = 2**10, 2**20, 2**30
_MEMORY = re.compile(r"(\d+)\s*([a-z]*)")
_MEMORY_UNITS = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), KB),
    **dict.fromkeys(("m", "mb", "mebibytes"), MB),
    **dict.fromkeys(("g", "gb", "gibibytes"), GB),
    **dict.fromkeys(("t", "tb", "tebibytes"), 2**40),
}
_DURATION = re.compile(r"(\d+)\s*([a-zµ]*)")
_DURATION_MILLIS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000.0),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1.0),
}


def parse_memory(text: str) -> int:
    """Bytes of a size such as ``128 mb``, ``64kb`` or ``1024`` (units are powers of 1024)."""
    match = _MEMORY.fullmatch(text.strip().lower())
    if match is None or match[2] not in _MEMORY_UNITS:
        raise ValueError("a size such as '128 mb' is expected")
    return int(match[1]) * _MEMORY_UNITS[match[2]]


def parse_duration(text: str) -> float:
    """Milliseconds of a duration such as ``1 h``, ``30 s`` or ``10 ms``; a bare number is milliseconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _DURATION_MILLIS:
        raise ValueError("a duration such as '30 s' is expected")
    return int(match[1]) * _DURATION_MILLIS[match[2]]


def parse_bool(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError("'true' or 'false' is expected")
    return value


def parse_names(text: str) -> tuple[str, ...]:
    """A comma list of column names, each trimmed; empty names are dropped."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parse_int(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("a whole number is expected") from None


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser of one of these words, in any case."""

    def parse(text: str) -> str:
        value = text.strip().lower()
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)} is expected")
        return value

    return parse


def _parse_levels(text: str) -> dict[int, str]:
    """``0:lz4,5:zstd`` → {0: 'lz4', 5: 'zstd'}."""
    try:
        pairs = (item.split(":") for item in text.split(",") if item.strip())
        return {int(level): value.strip().lower() for level, value in pairs}
    except ValueError:
        raise ValueError("a list such as '0:lz4,5:zstd' is expected") from None


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option: its key, default, value syntax, and whether a table with snapshots may change it."""

    key: str
    default: T
    parse: Callable[[str], T]
    immutable: bool = False
    aliases: tuple[str, ...] = ()


def _text(text: str) -> str:
    return text


def _name_beginning(text: str) -> str:
    """What file names begin with; a table's schema may be hostile, and no file is made outside of its directory."""
    if not {"/", "\\", "\0"}.isdisjoint(text):
        raise ValueError("the beginning of a file name has no path separators")
    return text


NO_STRING: str | None = None
NO_INT: int | None = None
NO_NAMES: tuple[str, ...] = ()

# Table definition
PRIMARY_KEY = Option("primary-key", NO_NAMES, parse_names, immutable=True)
PARTITION = Option("partition", NO_NAMES, parse_names, immutable=True)
BUCKET = Option("bucket", -1, _parse_int, immutable=True)
BUCKET_KEY = Option("bucket-key", NO_NAMES, parse_names, immutable=True)
BUCKET_FUNCTION = Option("bucket-function.type", "default", one_of("default", "mod", "hive"), immutable=True)
MERGE_ENGINE = Option(
    "merge-engine",
    "deduplicate",
    one_of("deduplicate", "partial-update", "aggregation", "first-row"),
    immutable=True,
)
SEQUENCE_FIELD = Option("sequence.field", NO_NAMES, parse_names)
SEQUENCE_ORDER = Option("sequence.field.sort-order", "ascending", one_of("ascending", "descending"))
ROWKIND_FIELD = Option("rowkind.field", NO_STRING, _text, immutable=True)
IGNORE_DELETE = Option(
    "ignore-delete",
    False,
    parse_bool,
    aliases=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
IGNORE_UPDATE_BEFORE = Option("ignore-update-before", False, parse_bool)
REMOVE_RECORD_ON_DELETE = Option("partial-update.remove-record-on-delete", False, parse_bool, immutable=True)
REMOVE_RECORD_ON_SEQUENCE_GROUP = Option(
    "partial-update.remove-record-on-sequence-group", NO_NAMES, parse_names, immutable=True
)
DEFAULT_AGGREGATE = Option("fields.default-aggregate-function", NO_STRING, _text)
CHANGELOG_PRODUCER = Option("changelog-producer", "none", one_of("none", "input", "lookup", "full-compaction"))
DELETION_VECTORS = Option("deletion-vectors.enabled", False, parse_bool)
DV_MERGE_ON_READ = Option("deletion-vectors.merge-on-read", True, parse_bool)
PARTITION_DEFAULT_NAME = Option("partition.default-name", "__DEFAULT_PARTITION__", _text)
PARTITION_LEGACY_NAME = Option("partition.legacy-name", True, parse_bool)

# Files
FILE_FORMAT = Option("file.format", "parquet", lambda t: t.strip().lower())
FILE_FORMAT_PER_LEVEL: Option[dict[int, str]] = Option("file.format.per.level", {}, _parse_levels)
FILE_COMPRESSION = Option("file.compression", "zstd", lambda t: t.strip().lower())
FILE_COMPRESSION_PER_LEVEL: Option[dict[int, str]] = Option("file.compression.per.level", {}, _parse_levels)
ZSTD_LEVEL = Option("file.compression.zstd-level", 1, _parse_int)
FILE_BLOCK_SIZE: Option[int | None] = Option("file.block-size", NO_INT, parse_memory)
TARGET_FILE_SIZE = Option("target-file-size", 128 * MB, parse_memory)
DATA_FILE_PREFIX = Option("data-file.prefix", "data-", _name_beginning)
SUFFIX_INCLUDES_COMPRESSION = Option("file.suffix.include.compression", False, parse_bool)
THIN_MODE = Option("data-file.thin-mode", False, parse_bool)
PATH_DIRECTORY = Option("data-file.path-directory", NO_STRING, _text, immutable=True)
EXTERNAL_PATHS = Option("data-file.external-paths", NO_NAMES, parse_names)
INDEX_IN_DATA_DIR = Option("index-file-in-data-file-dir", False, parse_bool)
STATS_MODE = Option("metadata.stats-mode", "truncate(16)", lambda t: t.strip().lower())

# Write and commit
WRITE_ONLY = Option("write-only", False, parse_bool, aliases=("write.compaction-skip",))
WRITE_BUFFER_SIZE = Option("write-buffer-size", 256 * MB, parse_memory)
DYNAMIC_PARTITION_OVERWRITE = Option("dynamic-partition-overwrite", True, parse_bool)
OVERWRITE_UPGRADE = Option("overwrite-upgrade", True, parse_bool)
NUM_LEVELS: Option[int | None] = Option("num-levels", NO_INT, _parse_int)
COMPACTION_TRIGGER = Option("num-sorted-run.compaction-trigger", 5, _parse_int)
MANIFEST_COMPRESSION = Option("manifest.compression", "zstd", lambda t: t.strip().lower())
MANIFEST_TARGET_SIZE = Option("manifest.target-file-size", 8 * MB, parse_memory)
MANIFEST_MERGE_MIN_COUNT = Option("manifest.merge-min-count", 30, _parse_int)
MANIFEST_FULL_THRESHOLD = Option("manifest.full-compaction-threshold-size", 16 * MB, parse_memory)
COMMIT_MAX_RETRIES = Option("commit.max-retries", 10, _parse_int)
COMMIT_MIN_WAIT = Option("commit.min-retry-wait", 10.0, parse_duration)
COMMIT_MAX_WAIT = Option("commit.max-retry-wait", 10_000.0, parse_duration)
COMMIT_TIMEOUT: Option[float | None] = Option("commit.timeout", None, parse_duration)
COMMIT_USER_PREFIX = Option("commit.user-prefix", NO_STRING, _text)
COMMIT_FORCE_SNAPSHOT = Option("commit.force-create-snapshot", False, parse_bool)

# Expiry
SNAPSHOT_RETAINED_MIN = Option("snapshot.num-retained.min", 10, _parse_int)
SNAPSHOT_RETAINED_MAX = Option("snapshot.num-retained.max", 2**31 - 1, _parse_int)
SNAPSHOT_RETAINED_TIME = Option("snapshot.time-retained", 3_600_000.0, parse_duration)
SNAPSHOT_EXPIRE_LIMIT = Option("snapshot.expire.limit", 50, _parse_int)
CHANGELOG_RETAINED_MIN: Option[int | None] = Option("changelog.num-retained.min", NO_INT, _parse_int)
CHANGELOG_RETAINED_MAX: Option[int | None] = Option("changelog.num-retained.max", NO_INT, _parse_int)
CHANGELOG_RETAINED_TIME: Option[float | None] = Option("changelog.time-retained", None, parse_duration)
CONSUMER_CHANGELOG_ONLY = Option("consumer.changelog-only", False, parse_bool)
CONSUMER_EXPIRATION: Option[float | None] = Option("consumer.expiration-time", None, parse_duration)

# Scan
SCAN_SNAPSHOT_ID: Option[int | None] = Option("scan.snapshot-id", None, _parse_int)
SCAN_TIMESTAMP_MILLIS: Option[int | None] = Option("scan.timestamp-millis", None, _parse_int)
SCAN_TIMESTAMP = Option("scan.timestamp", NO_STRING, _text)
SCAN_TAG_NAME = Option("scan.tag-name", NO_STRING, _text)
SCAN_VERSION = Option("scan.version", NO_STRING, _text)
SPLIT_TARGET_SIZE = Option("source.split.target-size", 128 * MB, parse_memory)
SPLIT_OPEN_COST = Option("source.split.open-file-cost", 4 * MB, parse_memory)
READ_BATCH_SIZE = Option("read.batch-size", 65_536, _parse_int)

IMMUTABLE: tuple[str, ...] = (
    *(option.key for option in list(globals().values()) if isinstance(option, Option) and option.immutable),
    "primary-key.nullable",
    "sequence.snapshot-ordering",
    "aggregation.remove-record-on-delete",
)

SCAN_PREFIXES = ("scan.", "source.split.", "incremental-")


class Options(Mapping[str, str]):
    """A table's options as strings, read through :class:`Option` descriptions. Immutable."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = {key: str(value) for key, value in (values or {}).items()}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Options({self._values!r})"

    def get_option(self, option: Option[T]) -> T:
        """The value of ``option``, or its default.

        :raises InvalidOption: the text is not a value of that option
        """
        for key in (option.key, *option.aliases):
            if key in self._values:
                try:
                    return option.parse(self._values[key])
                except ValueError as problem:
                    raise InvalidOption(f"option {key!r} = {self._values[key]!r}: {problem}") from None
        return option.default

    def is_set(self, option: Option[T]) -> bool:
        """Whether a value is given explicitly."""
        return any(key in self._values for key in (option.key, *option.aliases))

    def merged(self, more: Mapping[str, str]) -> Options:
        """These options, overridden by ``more``."""
        return Options({**self._values, **more})

    @property
    def num_levels(self) -> int:
        """Number of LSM levels; the highest level is one less."""
        explicit = self.get_option(NUM_LEVELS)
        return self.get_option(COMPACTION_TRIGGER) + 1 if explicit is None else explicit
