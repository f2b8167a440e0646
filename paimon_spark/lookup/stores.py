"""HashLookupStore and SortLookupStore: local key-value files with one face.

Which one? A hash file answers a key with one or two probes and takes keys in any order, but every page that is touched
must be kept or read again, and it is the larger one. A sort file needs its keys in order, compresses better and is
read in blocks, which suits keys that come in order.
"""

from __future__ import annotations

import functools

from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.compression import codec
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.hash_reader import HashReader
from paimon_spark.lookup.hash_writer import HashWriter
from paimon_spark.lookup.key_order import BYTEWISE, KeyOrder
from paimon_spark.lookup.lookup_options import CACHE_HIGH_PRIORITY_RATIO, CACHE_MAX_MEMORY_SIZE, GREATEST_PAGE
from paimon_spark.lookup.sort_layout import SortContext
from paimon_spark.lookup.sort_reader import SortReader
from paimon_spark.lookup.sort_writer import SortWriter


@functools.cache
def default_memory() -> LookupMemory:
    """The memory of readers that were given none, of the options' default size; one for the process."""
    return LookupMemory(CACHE_MAX_MEMORY_SIZE.default, CACHE_HIGH_PRIORITY_RATIO.default)


def _check(bloom_fpp: float | None, page_size: int) -> None:
    if bloom_fpp is not None and not 0 < bloom_fpp < 1:
        raise InvalidInput(f"a rate of false positives is above 0 and below 1, not {bloom_fpp}; None: no filter")
    if not 0 < page_size <= GREATEST_PAGE:
        raise InvalidInput(f"a page has 1 to {GREATEST_PAGE} bytes, not {page_size}")


class HashLookupStore:
    """Files that find a key by its hash (layout: ``hash_layout``)."""

    @staticmethod
    def writer(
        path: str,
        rows: int,
        bloom_fpp: float | None = None,
        compression: str = "none",
        page_size: int = 65536,
        load_factor: float = 0.75,
        zstd_level: int = 1,
    ) -> HashWriter:
        """A writer of a new file at ``path``.

        ``rows`` is the expected number of pairs and sizes the Bloom filter of false-positive rate ``bloom_fpp`` (None:
        no filter). ``compression`` is none, lz4 or zstd, in pages of ``page_size`` bytes.

        :raises InvalidInput: a size, rate or level that cannot be
        :raises StorageError: the file exists or cannot be made
        :raises UnsupportedFeature: another compression
        """
        _check(bloom_fpp, page_size)
        if not 0 < load_factor <= 1:
            raise InvalidInput(f"a load factor is above 0 and at most 1, not {load_factor}")
        return HashWriter(path, rows, bloom_fpp, codec(compression, zstd_level), page_size, load_factor)

    @staticmethod
    def reader(path: str, context: HashContext | None = None, cache: LookupMemory | None = None) -> HashReader:
        """A reader of the file at ``path``; its context is read from beside it unless given.

        :raises NotFound: there is no such file
        :raises CorruptFile: file or context are damaged or do not fit each other
        """
        return HashReader(path, context, cache or default_memory())


class SortLookupStore:
    """Files that hold their keys in order (layout: ``sort_layout``)."""

    @staticmethod
    def writer(
        path: str,
        rows: int,
        bloom_fpp: float | None = None,
        compression: str = "none",
        page_size: int = 65536,
        order: KeyOrder = BYTEWISE,
        zstd_level: int = 1,
    ) -> SortWriter:
        """A writer of a new file at ``path``; arguments as for :meth:`HashLookupStore.writer`, ``page_size`` being the
        size at which a block is closed and ``order`` that of the keys.

        :raises InvalidInput: a size, rate or level that cannot be
        :raises StorageError: the file exists or cannot be made
        :raises UnsupportedFeature: another compression
        """
        _check(bloom_fpp, page_size)
        return SortWriter(path, rows, bloom_fpp, codec(compression, zstd_level), page_size, order)

    @staticmethod
    def reader(
        path: str, context: SortContext | None = None, cache: LookupMemory | None = None, order: KeyOrder = BYTEWISE
    ) -> SortReader:
        """A reader of the file at ``path``, whose keys are in ``order``; its context is read from beside it unless
        given.

        :raises NotFound: there is no such file
        :raises CorruptFile: file or context are damaged or do not fit each other
        :raises InvalidInput: the file's keys have another order
        """
        return SortReader(path, context, cache or default_memory(), order)
