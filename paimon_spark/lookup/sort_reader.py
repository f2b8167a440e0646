"""Answers lookups from a sort file: filter, then index, then the blocks that can hold a key. Format: ``sort_layout``.

The keys of a batch are searched in the index all at once, which names the block of each, and then side by side in the
keys of those blocks, which say where the values lie. The keys of blocks stay in memory with the index (``key_table``).
Those that do not are read from beside the file (``listed_keys``), or decoded from whole blocks, some at a time, which
answers their part of the batch at once. Other values come from ``sort_contents``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile, InvalidInput
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.key_order import KeyOrder
from paimon_spark.lookup.key_search import OrderedKeys, SearchKeys, search, search_keys
from paimon_spark.lookup.key_table import BlockRows, KeyTable
from paimon_spark.lookup.sort_contents import BlockPlaces, Loaded, SortContents, read_blocks
from paimon_spark.lookup.sort_layout import Footer, SortContext, block_handles, decode_contents
from paimon_spark.lookup.store_reader import StoreReader, sidecar_beside
from paimon_spark.rows.byte_strings import ByteStrings, Int64s, as_binary, joined_strings, strings_at
from paimon_spark.rows.murmur import hash_bytes_many

_INDEX, _FILTER, _KEYS = 0, 1, 2
_Asked: TypeAlias = "tuple[Int64s, Int64s, OrderedKeys]"


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
            self._files += self._contents.files
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
        :raises InvalidInput: these are no byte strings, or their values have 2 GiB or more in all
        """
        wanted = as_binary(keys, "keys")
        rows = np.arange(len(wanted))
        if self._footer.bloom_keys and len(wanted):
            rows = self._bloom().passing(hash_bytes_many(wanted))
        if not len(rows):
            return pa.nulls(len(wanted), pa.binary())
        if len(rows) < len(wanted):
            found = self._find(wanted.take(to_arrow(rows)))
            places = np.full(len(wanted), -1, np.int64)
            places[rows] = np.arange(len(rows))
            return found.take(to_arrow(places, places >= 0))
        return self._find(wanted)

    def _find(self, wanted: pa.BinaryArray) -> pa.BinaryArray:
        index = self._index()
        batch, answers = _Batch(self._order.normalize(wanted), index), _Answers(len(wanted))
        cache, moment = self._memory.priority, self._memory.blocks.tick()
        with cache.budget.lock:
            table = cache.get(self._owner, _KEYS, functools.partial(KeyTable, len(index.blocks.offsets)))
            last_use, table.last_use = table.last_use, cache.time
            known = table.has(batch.numbers)
        answered = np.zeros(len(known), np.bool_)
        for some, keys in self._contents.listed_keys(batch.numbers[~known], self._order):
            among = np.searchsorted(batch.numbers, some)
            if self._keep(table, some, keys, last_use):
                known[among] = True
            else:
                self._answer(batch.of(among), KeyTable.of(keys), some, answers)
                answered[among] = True
        for among in self._contents.groups(known, ~answered):
            if known[among[0]]:
                self._answer(batch.of(among), table, None, answers)
                continue
            some = batch.numbers[among]
            loaded = self._contents.load(some, moment)
            keys = self._decode(index.blocks.offsets[some], loaded)
            rows, blocks, asked = batch.of(among)
            blocks = np.searchsorted(some, blocks)
            hits, starts, lengths = KeyTable.of(keys).find(blocks, asked)
            answers.add(rows[hits], strings_at(loaded.memory, loaded.begins[blocks[hits]] + starts, lengths))
            self._keep(table, some, keys, last_use)
        return answers.strings()

    def _answer(self, asked: _Asked, table: KeyTable, numbers: Int64s | None, answers: _Answers) -> None:
        """Answer what is asked of blocks whose keys are in a table: under their numbers, or in the order of these
        ``numbers``."""
        rows, blocks, keys = asked
        with self._memory.priority.budget.lock:
            hits, starts, lengths = table.find(blocks if numbers is None else np.searchsorted(numbers, blocks), keys)
        for among, values in self._contents.values(blocks[hits], starts, lengths):
            answers.add(rows[hits[among]], values)

    def _keep(self, table: KeyTable, numbers: Int64s, keys: BlockRows, last_use: int) -> bool:
        """Add the keys of these blocks to the table if there is room for them; whether there was."""
        add = functools.partial(table.add, numbers, keys)
        return self._memory.priority.grow(self._owner, _KEYS, table, keys.nbytes, last_use, add)

    def _decode(self, offsets: Int64s, loaded: Loaded) -> BlockRows:
        """The keys of the data blocks at these offsets."""
        entries = decode_contents(self.path, offsets, loaded.memory, loaded.begins, loaded.stops)
        if not entries.counts.all():
            raise CorruptFile(self.path, f"the block at byte {offsets[entries.counts.argmin()]} has no entries")
        return BlockRows.of_entries(entries, self._order.normalize(entries.keys), loaded.begins)

    def _index(self) -> _Index:
        def load() -> _Index:
            offset = np.array([self._footer.index_offset])
            loaded = read_blocks(self._file, offset, np.array([self._footer.index_size]), self._memory)
            entries = decode_contents(self.path, offset, loaded.memory, loaded.begins, loaded.stops)
            ordered = self._order.normalize(entries.keys)
            offsets, sizes = block_handles(self.path, entries, self._footer.data_end)
            blocks = BlockPlaces(offsets, sizes, np.zeros(len(offsets), np.int64))
            return _Index(search_keys(ordered), blocks)

        return self._memory.priority.get(self._owner, _INDEX, load)

    def _bloom(self) -> BloomFilter:
        def load() -> BloomFilter:
            bits = np.frombuffer(self._tail(self._footer), np.uint8, self._footer.bloom_size)
            return BloomFilter(bits, self._footer.bloom_keys)

        return self._memory.priority.get(self._owner, _FILTER, load)

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


class _Batch:
    """The keys of a batch, by the block that would have them. ``numbers``: those blocks, ascending."""

    def __init__(self, ordered: OrderedKeys, index: _Index) -> None:
        """Keys in the form of the file's order; those behind the last block are in none."""
        block_of, _ = search(index.keys, search_keys(ordered, index.keys.form))
        inside = np.flatnonzero(block_of < len(index.blocks.offsets))
        self._rows = inside[np.argsort(block_of[inside], kind="stable")]
        self._ordered, self._block_of = ordered, block_of
        self.numbers, borders = np.unique(block_of[self._rows], return_index=True)
        self._counts = np.diff(borders, append=len(self._rows))

    def of(self, among: Int64s) -> _Asked:
        """What is asked of those of its blocks, ``among`` them these: the numbers of keys, their blocks, and them."""
        wanted = np.zeros(len(self.numbers), np.bool_)
        wanted[among] = True
        rows = self._rows[np.repeat(wanted, self._counts)]
        keys = self._ordered
        return rows, self._block_of[rows], keys[rows] if isinstance(keys, np.ndarray) else keys.take(to_arrow(rows))


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
        return joined_strings(self._found).take(to_arrow(self._order))
