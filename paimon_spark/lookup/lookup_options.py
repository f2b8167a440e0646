"""The ``lookup.*`` options, with Paimon's names and defaults.

Source: ``CoreOptions`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.options import KB, MB, Option, one_of, parse_bool, parse_duration, parse_memory

NO_BOUND: int | None = None
GREATEST_PAGE = 2**30
"""Bytes of the largest page or block of a lookup file: positions in one have 31 bits, in Java too."""


def _fraction(least: float | None = None) -> Callable[[str], float]:
    """Numbers between 0 and 1, and ``least``."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not 0 < value < 1 and value != least:
            raise ValueError("a number between 0 and 1 is expected" + ("" if least is None else f", or {least:g}"))
        return value

    return parse


def _page_size(text: str) -> int:
    size = parse_memory(text)
    if not 0 < size <= GREATEST_PAGE:
        raise ValueError("a size from 1 byte to 1 gb is expected")
    return size


def _zstd_level(text: str) -> int:
    level = int(text) if text.strip().lstrip("-").isdigit() else 99
    if not -22 <= level <= 22:
        raise ValueError("a zstd level is expected")
    return level


LOCAL_FILE_TYPE = Option("lookup.local-file-type", "sort", one_of("sort", "hash"))
HASH_LOAD_FACTOR = Option("lookup.hash-load-factor", 0.75, _fraction())
CACHE_FILE_RETENTION = Option("lookup.cache-file-retention", 3_600_000.0, parse_duration)
CACHE_MAX_DISK_SIZE: Option[int | None] = Option("lookup.cache-max-disk-size", NO_BOUND, parse_memory)
CACHE_MAX_MEMORY_SIZE = Option("lookup.cache-max-memory-size", 256 * MB, parse_memory)
CACHE_HIGH_PRIORITY_RATIO = Option("lookup.cache.high-priority-pool-ratio", 0.25, _fraction(0.0))
CACHE_SPILL_COMPRESSION = Option("lookup.cache-spill-compression", "zstd", one_of("none", "lz4", "lzo", "zstd"))
SPILL_ZSTD_LEVEL = Option("spill-compression.zstd-level", 1, _zstd_level)
BLOOM_FILTER_ENABLED = Option("lookup.cache.bloom.filter.enabled", True, parse_bool)
BLOOM_FILTER_FPP = Option("lookup.cache.bloom.filter.fpp", 0.05, _fraction())
CACHE_PAGE_SIZE = Option("cache-page-size", 64 * KB, _page_size)
