"""Answers lookups from a sort file: filter, then index, then the blocks that can hold a key. Format: ``sort_layout``.

The keys of a batch are searched in the index all at once, which names the block of each. Those blocks are decoded,
each once; their key columns, laid end to end, are one ascending column again, so a single search finds every key of
the batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import to_arrow
from paimon_spark.errors import CorruptFile, InvalidInput, NotFound
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.key_order import KeyOrder
from paimon_spark.lookup.key_search import (
    OrderedKeys,
    SearchKeys,
    form_of,
    join_keys,
    search,
    search_keys,
)
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.sidecar import Sidecar, missing_context
from paimon_spark.lookup.sort_layout import (
    TRAILER,
    Entries,
    Footer,
    SortContext,
    block_handles,
    decode_content,
    open_block,
)
from paimon_spark.rows.byte_strings import ByteStrings, Int64s, as_binary, strings_in
from paimon_spark.rows.murmur import hash_bytes_many

_INDEX, _FILTER = 0, 1


class _DataBlock:
    """A decoded block and, for the form last asked for, its keys ready for a search."""

    def __init__(self, entries: Entries, ordered: OrderedKeys, form: int) -> None:
        self.entries = entries
        self.form = form_of(ordered)
        self._ordered = ordered
        # Replaced as one, because threads share a block.
        self._searched = (max(form, self.form), search_keys(ordered, max(form, self.form)))

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes + int(self._ordered.nbytes) + self._searched[1].nbytes

    def keys(self, form: int) -> SearchKeys:
        known, keys = self._searched
        if form != known:
            keys = search_keys(self._ordered, form)
            self._searched = (form, keys)
        return keys


@dataclass(frozen=True)
class _Index:
    """The last key of each data block, and where the blocks are."""

    block: _DataBlock
    offsets: Int64s
    sizes: Int64s

    @property
    def nbytes(self) -> int:
        return self.block.nbytes + self.offsets.nbytes + self.sizes.nbytes


@dataclass(frozen=True)
class _FilterBlock:
    bloom: BloomFilter

    @property
    def nbytes(self) -> int:
        return self.bloom.bits.nbytes


class SortReader:
    """One open sort file. Safe to share between threads."""

    def __init__(self, path: str, context: SortContext | None, memory: LookupMemory, order: KeyOrder) -> None:
        """Open the file at ``path``; without a context, by the one beside it.

        :raises NotFound: no such file
        :raises CorruptFile: the file, or its context, is damaged, cut short or not a sort file
        :raises InvalidInput: the file's keys have another order
        """
        self.path = path
        self._file = LocalFile(path)
        self._memory = memory
        self._order = order
        self._form = 0
        try:
            self.context = _context_beside(path) if context is None else context
            if self.context.order not in (None, order.name):
                raise InvalidInput(f"lookup file {path} has its keys in order {self.context.order}, not {order.name}")
            self._footer = self._check_tail()
            self._index()
        except BaseException:
            self._file.close()
            memory.priority.drop(id(self))
            raise

    @property
    def size(self) -> int:
        """Bytes of the file on disk."""
        return self._file.size

    def is_deleted(self) -> bool:
        """Whether the file has lost its name; it still answers."""
        return self._file.is_deleted()

    def close(self) -> None:
        """Close the file and give its memory back."""
        self._memory.priority.drop(id(self))
        self._memory.blocks.drop(id(self))
        self._file.close()

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None."""
        value: bytes | None = self.get_many([key])[0].as_py()
        return value

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
        form = max(self._form, index.block.form)
        block_of, _ = search(index.block.keys(form), search_keys(ordered, form))
        inside = np.flatnonzero(block_of < len(index.offsets))
        inside = inside[np.argsort(block_of[inside], kind="stable")]
        found, filled = [pa.nulls(1, pa.binary())], 1
        order = np.zeros(len(wanted), np.int64)
        for blocks, rows in self._windows(index, block_of, inside):
            asked = ordered[rows] if isinstance(ordered, np.ndarray) else ordered.take(to_arrow(rows))
            found.append(self._find_in(blocks, asked))
            order[rows] = filled + np.arange(len(rows))
            filled += len(rows)
        return pa.concat_arrays(found).take(to_arrow(order))

    def _find_in(self, blocks: list[_DataBlock], wanted: OrderedKeys) -> pa.BinaryArray:
        """The values of keys that, if anywhere, are in these consecutive blocks."""
        form = self._form = max(self._form, *(block.form for block in blocks))
        stored = join_keys([block.keys(form) for block in blocks])
        at, found = search(stored, search_keys(wanted, form))
        ends = np.cumsum([len(block.entries.value_starts) for block in blocks])
        at[~found] = 0
        which = np.searchsorted(ends, at, side="right")
        starts = np.concatenate([block.entries.value_starts for block in blocks])[at].astype(np.int64)
        lengths = np.concatenate([block.entries.value_lengths for block in blocks])[at].astype(np.int64)
        return strings_in([block.entries.content for block in blocks], which, starts, lengths, found)

    def _windows(self, index: _Index, block_of: Int64s, rows: Int64s) -> Iterator[tuple[list[_DataBlock], Int64s]]:
        """The blocks that ``rows`` (sorted by block) need, as many at a time as memory holds, with their rows."""
        numbers = block_of[rows]
        borders = np.flatnonzero(np.diff(numbers, prepend=-1))
        blocks: list[_DataBlock] = []
        first, used = 0, 0
        for begin in borders.tolist():
            block = self._block(index, int(numbers[begin]))
            if blocks and used + block.nbytes > self._memory.blocks.budget.limit:
                yield blocks, rows[first:begin]
                blocks, first, used = [], begin, 0
            blocks.append(block)
            used += block.nbytes
        if blocks:
            yield blocks, rows[first:]

    def _block(self, index: _Index, number: int) -> _DataBlock:
        def load() -> _DataBlock:
            return self._decode(int(index.offsets[number]), int(index.sizes[number]))

        return self._memory.blocks.get(id(self), number, load)

    def _decode(self, offset: int, size: int) -> _DataBlock:
        stored = self._file.read(offset, size + TRAILER.size)
        content = open_block(self.path, offset, stored, self.context.longest_block)
        entries = decode_content(self.path, offset, content)
        return _DataBlock(entries, self._order.normalize(entries.keys), self._form)

    def _index(self) -> _Index:
        def load() -> _Index:
            footer = self._footer
            block = self._decode(footer.index_offset, footer.index_size)
            self._form = max(self._form, block.form)
            end = footer.bloom_offset if footer.bloom_keys else footer.index_offset
            return _Index(block, *block_handles(self.path, block.entries, end))

        return self._memory.priority.get(id(self), _INDEX, load)

    def _bloom(self) -> BloomFilter:
        def load() -> _FilterBlock:
            bits = np.frombuffer(self._tail(self._footer), np.uint8, self._footer.bloom_size)
            return _FilterBlock(BloomFilter(bits, self._footer.bloom_keys))

        return self._memory.priority.get(id(self), _FILTER, load).bloom

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
        start = footer.bloom_offset if footer.bloom_keys else footer.index_offset
        tail = self._file.read(start, self._file.size - start)
        if self.context.tail_checksum not in (None, zlib.crc32(tail)):
            raise CorruptFile(self.path, f"the checksum of filter, index and footer at byte {start} does not match")
        return tail


def _context_beside(path: str) -> SortContext:
    try:
        sidecar = Sidecar.read(path, "sort")
    except NotFound as problem:
        raise missing_context(path, problem) from problem
    return SortContext.from_sidecar(path, sidecar)
