"""The options of compaction, with Paimon's names and defaults.

Source: ``CoreOptions`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.options import COMPACTION_TRIGGER, MB, Option, Options, parse_bool, parse_duration, parse_memory

NO_INT: int | None = None
NO_MILLIS: float | None = None


def _whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            bounds = f"of at least {least}" if most == 2**31 - 1 else f"from {least} to {most}"
            raise ValueError(f"a whole number {bounds} is expected")
        return value

    return parse


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0 <= value <= 1.0:
        raise ValueError("a number from 0 to 1 is expected")
    return value


def _depth(text: str) -> str:
    value = text.strip().lower()
    if value not in ("radical", "gentle"):
        raise ValueError("'radical' or 'gentle' is expected")
    return value


MAX_SIZE_AMPLIFICATION = Option("compaction.max-size-amplification-percent", 200, _whole(0))
SIZE_RATIO = Option("compaction.size-ratio", 1, _whole(0))
OFFPEAK_START_HOUR = Option("compaction.offpeak.start.hour", -1, _whole(-1, 23))
OFFPEAK_END_HOUR = Option("compaction.offpeak.end.hour", -1, _whole(-1, 24))
OFFPEAK_RATIO = Option("compaction.offpeak-ratio", 0, _whole(0))
OPTIMIZATION_INTERVAL = Option("compaction.optimization-interval", NO_MILLIS, parse_duration)
TOTAL_SIZE_THRESHOLD = Option("compaction.total-size-threshold", NO_INT, parse_memory)
INCREMENTAL_SIZE_THRESHOLD = Option("compaction.incremental-size-threshold", NO_INT, parse_memory)
SMALL_FILE_RATIO = Option("compaction.small-file-ratio", 0.7, _ratio)
FORCE_UP_LEVEL_0 = Option("compaction.force-up-level-0", False, parse_bool)
FORCE_REWRITE_ALL_FILES = Option("compaction.force-rewrite-all-files", False, parse_bool)
FORCE_LOOKUP = Option("force-lookup", False, parse_bool)
BITMAP_64 = Option("deletion-vectors.bitmap64", False, parse_bool)
SORT_BUFFER_SIZE = Option("sort-spill-buffer-size", 64 * MB, parse_memory)
LOOKUP_COMPACT = Option("lookup-compact", "radical", _depth)
LOOKUP_COMPACT_MAX_INTERVAL = Option("lookup-compact.max-interval", NO_INT, _whole(1))


def gentle_interval(options: Options) -> int:
    """Every how many picks that find nothing a gentle lookup table takes up its level 0."""
    trigger = options.get_option(COMPACTION_TRIGGER)
    explicit = options.get_option(LOOKUP_COMPACT_MAX_INTERVAL)
    return max(trigger, 2 * trigger if explicit is None else explicit)
