"""The ``lookup.*`` options, with Paimon's names and defaults.

Source: ``CoreOptions`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.options import KB, MB, Option, one_of, parse_bool, parse_duration, parse_memory

NO_BOUND: int | None = None


def _fraction(above: float, below: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not above < value < below:
            raise ValueError(f"a number between {above:g} and {below:g} is expected")
        return value

    return parse


def _zstd_level(text: str) -> int:
    level = int(text) if text.strip().lstrip("-").isdigit() else 99
    if not -22 <= level <= 22:
        raise ValueError("a zstd level is expected")
    return level


LOCAL_FILE_TYPE = Option("lookup.local-file-type", "sort", one_of("sort", "hash"))
HASH_LOAD_FACTOR = Option("lookup.hash-load-factor", 0.75, _fraction(0.0, 1.0))
CACHE_FILE_RETENTION = Option("lookup.cache-file-retention", 3_600_000.0, parse_duration)
CACHE_MAX_DISK_SIZE: Option[int | None] = Option("lookup.cache-max-disk-size", NO_BOUND, parse_memory)
CACHE_MAX_MEMORY_SIZE = Option("lookup.cache-max-memory-size", 256 * MB, parse_memory)
CACHE_HIGH_PRIORITY_RATIO = Option("lookup.cache.high-priority-pool-ratio", 0.25, _fraction(-1e-9, 1.0))
CACHE_SPILL_COMPRESSION = Option("lookup.cache-spill-compression", "zstd", one_of("none", "lz4", "lzo", "zstd"))
SPILL_ZSTD_LEVEL = Option("spill-compression.zstd-level", 1, _zstd_level)
BLOOM_FILTER_ENABLED = Option("lookup.cache.bloom.filter.enabled", True, parse_bool)
BLOOM_FILTER_FPP = Option("lookup.cache.bloom.filter.fpp", 0.05, _fraction(0.0, 1.0))
CACHE_PAGE_SIZE = Option("cache-page-size", 64 * KB, parse_memory)
