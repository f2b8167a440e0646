"""Answers lookups from a sort file: filter, then index, then the blocks that can hold a key. Format: ``sort_layout``.

The keys of a batch are searched in the index all at once, which names the block of each, and then side by side in the
keys of those blocks, which say where the values lie. The keys of blocks stay in memory with the index (``key_table``);
those that do not are decoded from whole blocks, some at a time, which answers their part of the batch at once. Other
values come from ``sort_contents``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile, InvalidInput
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.key_order import KeyOrder
from paimon_spark.lookup.key_search import OrderedKeys, SearchKeys, search, search_keys
from paimon_spark.lookup.key_table import KeyTable
from paimon_spark.lookup.sort_contents import BlockPlaces, Loaded, SortContents, read_blocks
from paimon_spark.lookup.sort_layout import Entries, Footer, SortContext, block_handles, decode_contents
from paimon_spark.lookup.store_reader import StoreReader, sidecar_beside
from paimon_spark.rows.byte_strings import ByteStrings, Int64s, as_binary, strings_at
from paimon_spark.rows.murmur import hash_bytes_many

_INDEX, _FILTER, _KEYS = 0, 1, 2


@dataclass(frozen=True)
class _Index:
    """The last key of each data block, and where the blocks are."""

    keys: SearchKeys
    blocks: BlockPlaces

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + 3 * self.blocks.offsets.nbytes


class SortReader(StoreReader):
    """One open sort file. Safe to share between threads."""

    def __init__(self, path: str, context: SortContext | None, memory: LookupMemory, order: KeyOrder) -> None:
        """Open the file at ``path``; without a context, by the one beside it.

        :raises NotFound: no such file
        :raises CorruptFile: the file, or its context, is damaged, cut short or not a sort file
        :raises InvalidInput: the file's keys have another order
        """
        super().__init__(path, memory)
        self._order = order
        try:
            self.context = SortContext.from_sidecar(path, sidecar_beside(path, "sort")) if context is None else context
            if self.context.order not in (None, order.name):
                raise InvalidInput(f"lookup file {path} has its keys in order {self.context.order}, not {order.name}")
            self._footer = self._check_tail()
            blocks = self._index().blocks
            self._contents = SortContents(self._file, self.context, blocks, self._footer.data_end, memory)
        except BaseException:
            super().close()
            raise

    def close(self) -> None:
        """Close the file and give its memory back."""
        self._contents.close()
        super().close()

    def get_many(self, keys: ByteStrings) -> pa.BinaryArray:
        """The value of each key, null where the file has no such key.

        :raises CorruptFile: a block that these keys need is damaged
        """
        wanted = as_binary(keys, "keys")
        rows = np.arange(len(wanted))
        if self._footer.bloom_keys and len(wanted):
            rows = np.flatnonzero(self._bloom().test(hash_bytes_many(wanted)))
        if not len(rows):
            return pa.nulls(len(wanted), pa.binary())
        if len(rows) < len(wanted):
            found = self._find(wanted.take(to_arrow(rows)))
            places = np.full(len(wanted), -1, np.int64)
            places[rows] = np.arange(len(rows))
            return found.take(to_arrow(places, places >= 0))
        return self._find(wanted)

    def _find(self, wanted: pa.BinaryArray) -> pa.BinaryArray:
        ordered = self._order.normalize(wanted)
        index = self._index()
        block_of, _ = search(index.keys, search_keys(ordered, index.keys.form))
        inside = np.flatnonzero(block_of < len(index.blocks.offsets))
        inside = inside[np.argsort(block_of[inside], kind="stable")]
        answers = _Answers(len(wanted))
        numbers, borders = np.unique(block_of[inside], return_index=True)
        cache, moment = self._memory.priority, self._memory.blocks.tick()
        with cache.budget.lock:
            table = cache.get(id(self), _KEYS, functools.partial(KeyTable, len(index.blocks.offsets)))
            last_use, table.last_use = table.last_use, cache.time
            known = table.has(numbers)
        for some, places in self._contents.groups(known, borders, len(inside)):
            rows = inside[places]
            blocks = block_of[rows]
            asked = ordered[rows] if isinstance(ordered, np.ndarray) else ordered.take(to_arrow(rows))
            if known[some[0]]:
                with cache.budget.lock:
                    hits, starts, lengths = table.find(blocks, asked)
                for among, values in self._contents.values(blocks[hits], starts, lengths):
                    answers.add(rows[hits[among]], values)
            else:
                loaded = self._contents.load(numbers[some], moment)
                keys = self._decode(index.blocks.offsets[numbers[some]], loaded)
                part, blocks = KeyTable(len(some)), np.searchsorted(numbers[some], blocks)
                part.add(np.arange(len(some)), *keys)
                hits, starts, lengths = part.find(blocks, asked)
                answers.add(rows[hits], strings_at(loaded.memory, loaded.begins[blocks[hits]] + starts, lengths))
                add = functools.partial(table.add, numbers[some], *keys)
                cache.grow(id(self), _KEYS, table, part.nbytes, last_use, add)
        return answers.strings()

    def _decode(self, offsets: Int64s, loaded: Loaded) -> tuple[Entries, OrderedKeys, Int64s]:
        """What :meth:`KeyTable.add` asks for of the data blocks at these offsets."""
        entries = decode_contents(self.path, offsets, loaded.memory, loaded.begins, loaded.stops)
        if not entries.counts.all():
            raise CorruptFile(self.path, f"the block at byte {offsets[entries.counts.argmin()]} has no entries")
        return entries, self._order.normalize(entries.keys), loaded.begins

    def _index(self) -> _Index:
        def load() -> _Index:
            offset = np.array([self._footer.index_offset])
            loaded = read_blocks(self._file, offset, np.array([self._footer.index_size]), self._memory)
            entries = decode_contents(self.path, offset, loaded.memory, loaded.begins, loaded.stops)
            ordered = self._order.normalize(entries.keys)
            offsets, sizes = block_handles(self.path, entries, self._footer.data_end)
            blocks = BlockPlaces(offsets, sizes, np.zeros(len(offsets), np.int64))
            return _Index(search_keys(ordered), blocks)

        return self._memory.priority.get(id(self), _INDEX, load)

    def _bloom(self) -> BloomFilter:
        def load() -> BloomFilter:
            bits = np.frombuffer(self._tail(self._footer), np.uint8, self._footer.bloom_size)
            return BloomFilter(bits, self._footer.bloom_keys)

        return self._memory.priority.get(id(self), _FILTER, load)

    def _check_tail(self) -> Footer:
        """The footer, everything behind the data blocks having been checked."""
        size = self._file.size
        if size != self.context.file_size or size < Footer.SIZE:
            raise CorruptFile(self.path, f"it has {size} bytes, not {self.context.file_size}")
        footer = Footer.decode(self.path, self._file.read(size - Footer.SIZE, Footer.SIZE), size)
        self._tail(footer)
        return footer

    def _tail(self, footer: Footer) -> bytes:
        """Everything behind the data blocks, checked."""
        start = footer.data_end
        tail = self._file.read(start, self._file.size - start)
        if self.context.tail_checksum not in (None, crc32(tail)):
            raise CorruptFile(self.path, f"the checksum of filter, index and footer at byte {start} does not match")
        return tail


class _Answers:
    """The values of a batch's keys, found in parts; null for those that are never added."""

    def __init__(self, count: int) -> None:
        self._found, self._filled = [pa.nulls(1, pa.binary())], 1
        self._order = np.zeros(count, np.int64)

    def add(self, rows: Int64s, values: pa.BinaryArray) -> None:
        """The values of these rows."""
        self._found.append(values)
        self._order[rows] = self._filled + np.arange(len(rows))
        self._filled += len(rows)

    def strings(self) -> pa.BinaryArray:
        """The value of each row."""
        return pa.concat_arrays(self._found).take(to_arrow(self._order))
