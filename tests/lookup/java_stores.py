"""Java's lookup stores, driven through py4j."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.sort_layout import SortContext


class JavaStores:
    """Opens lookup files with Paimon's own readers, in the JVM of the ``java`` fixture."""

    def __init__(self, java: Any) -> None:
        self._gateway = java._gateway
        self._paimon = java._gateway.jvm.org.apache.paimon

    def reader(
        self, kind: str, path: Path, context: HashContext | SortContext, compression: str, page_size: int
    ) -> Any:
        """A ``LookupStoreReader`` of the file."""
        memory = self._paimon.io.cache.CacheManager(self._paimon.options.MemorySize.ofMebiBytes(16))
        codec = self._paimon.compression.CompressOptions(compression, 1)
        file = self._gateway.jvm.java.io.File(str(path))
        if isinstance(context, HashContext):
            stores = self._paimon.lookup.hash.HashLookupStoreFactory(memory, page_size, 0.75, codec)
            return stores.createReader(file, self._hash_context(context))
        compare = self._gateway.jvm.java.util.Comparator.naturalOrder()
        stores = self._paimon.lookup.sort.SortLookupStoreFactory(compare, memory, page_size, codec)
        return stores.createReader(file, self._paimon.lookup.sort.SortContext(context.file_size))

    def _hash_context(self, context: HashContext) -> Any:
        jvm = self._gateway.jvm
        pages = context.page_starts
        return self._paimon.lookup.hash.HashContext(
            context.bloom_keys > 0,
            context.bloom_keys,
            context.bloom_bytes,
            self._array(jvm.int, context.key_counts),
            self._array(jvm.int, context.slot_sizes),
            self._array(jvm.int, context.slots),
            self._array(jvm.int, context.index_offsets),
            self._array(jvm.long, context.data_offsets),
            0 if pages is None else context.length,
            None if pages is None else self._array(jvm.long, pages),
        )

    def _array(self, kind: Any, numbers: tuple[int, ...]) -> Any:
        array = self._gateway.new_array(kind, len(numbers))
        for i, number in enumerate(numbers):
            array[i] = number
        return array
