"""Answers lookups from a sort file: filter, then index, then the blocks that can hold a key. Format: ``sort_layout``.

The keys of a batch are searched in the index all at once, which names the block of each. Those blocks are decoded,
each once; their key columns, laid end to end, are one ascending column again, so a single search finds many keys.
Blocks that are not in memory are read and decoded 8 MiB at a time, beyond the bound of the cache, which takes of them
what it has room for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import strings, to_arrow
from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile, InvalidInput, NotFound
from paimon_spark.lookup.block_cache import PASSING, LookupMemory
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
    decode_contents,
    open_block,
)
from paimon_spark.rows.byte_strings import Bytes, ByteStrings, Int64s, as_binary, strings_in
from paimon_spark.rows.murmur import hash_bytes_many

_INDEX, _FILTER = 0, 1
_NO_KEYS = strings([], pa.binary())


class _DataBlock:
    """Decoded blocks, one or some that follow one another, and, for the form last asked for, their keys ready for a
    search."""

    def __init__(self, entries: Entries, ordered: OrderedKeys, form: int) -> None:
        self.content = entries.content
        self.value_starts = entries.value_starts
        self.value_lengths = entries.value_lengths
        self.form = form_of(ordered)
        self._ordered = ordered
        # Replaced as one, because threads share a block.
        self._searched = (max(form, self.form), search_keys(ordered, max(form, self.form)))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        places = self.value_starts.nbytes + self.value_lengths.nbytes
        return self.content.nbytes + places + int(self._ordered.nbytes) + self._searched[1].nbytes

    def keys(self, form: int) -> SearchKeys:
        """The keys in that form."""
        known, keys = self._searched
        if form != known:
            keys = search_keys(self._ordered, form)
            self._searched = (form, keys)
        return keys

    def copy(self, rows: slice, places: slice) -> _DataBlock:
        """The block that has these ``rows`` and these ``places`` of the content, in memory of its own."""
        ordered, none = self._ordered[rows], self._ordered[:0]
        ordered = ordered.copy() if isinstance(ordered, np.ndarray) else pa.concat_arrays([ordered, none])
        starts = self.value_starts[rows] - np.int32(places.start)
        counts = np.array([len(starts)])
        entries = Entries(self.content[places].copy(), _NO_KEYS, starts, self.value_lengths[rows].copy(), counts)
        return _DataBlock(entries, ordered, self._searched[0])


@dataclass(frozen=True)
class _Index:
    """The last key of each data block, where the blocks are, and when each was used last."""

    block: _DataBlock
    offsets: Int64s
    sizes: Int64s
    last_use: Int64s

    @property
    def nbytes(self) -> int:
        return self.block.nbytes + self.offsets.nbytes + self.sizes.nbytes + self.last_use.nbytes


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
        for blocks, rows in self._parts(index, block_of, inside):
            asked = ordered[rows] if isinstance(ordered, np.ndarray) else ordered.take(to_arrow(rows))
            found.append(self._find_in(blocks, asked))
            order[rows] = filled + np.arange(len(rows))
            filled += len(rows)
        return pa.concat_arrays(found).take(to_arrow(order))

    def _find_in(self, blocks: list[_DataBlock], wanted: OrderedKeys) -> pa.BinaryArray:
        """The values of keys that, if anywhere, are in these ascending blocks."""
        form = self._form = max(self._form, *(block.form for block in blocks))
        stored = join_keys([block.keys(form) for block in blocks])
        at, found = search(stored, search_keys(wanted, form))
        ends = np.cumsum([len(block.value_starts) for block in blocks])
        at[~found] = 0
        which = np.searchsorted(ends, at, side="right")
        starts = np.concatenate([block.value_starts for block in blocks])[at].astype(np.int64)
        lengths = np.concatenate([block.value_lengths for block in blocks])[at].astype(np.int64)
        return strings_in([block.content for block in blocks], which, starts, lengths, found)

    def _parts(self, index: _Index, block_of: Int64s, rows: Int64s) -> Iterator[tuple[list[_DataBlock], Int64s]]:
        """The blocks that ``rows`` (sorted by block) need and the rows that need them: first those in memory, then the
        others, about 8 MiB at a time."""
        if not len(rows):
            return
        numbers, borders = np.unique(block_of[rows], return_index=True)
        cache = self._memory.blocks
        with cache.budget.lock:
            blocks = cast("list[_DataBlock | None]", cache.find(id(self), numbers.tolist()))
            last_uses = index.last_use[numbers]
            index.last_use[numbers] = cache.time
        lengths = np.diff(borders, append=len(rows))
        known = np.array([block is not None for block in blocks], np.bool_)
        if known.any():
            yield [block for block in blocks if block is not None], rows[np.repeat(known, lengths)]
        missing = np.flatnonzero(~known)
        # Of a file that says nothing of its longest block, any block may unpack to much.
        step = max(1, PASSING // (self.context.longest_block or PASSING))
        for first in range(0, len(missing), step):
            some = missing[first : first + step]
            which = np.zeros(len(numbers), np.bool_)
            which[some] = True
            yield [self._load(index, numbers[some], last_uses[some])], rows[np.repeat(which, lengths)]

    def _load(self, index: _Index, numbers: Int64s, last_uses: Int64s) -> _DataBlock:
        """These blocks, read and decoded as one, and offered to the cache one by one."""
        content, begins, stops = self._contents(index.offsets[numbers], index.sizes[numbers])
        entries = decode_contents(self.path, index.offsets[numbers], content, begins, stops)
        whole, counts = _DataBlock(entries, self._order.normalize(entries.keys), self._form), entries.counts
        cache, ends = self._memory.blocks, np.cumsum(counts)
        sizes = stops - begins + (whole.nbytes - content.nbytes) // max(1, int(ends[-1])) * counts
        for some in cache.may_take(int(sizes.min()), last_uses).tolist():
            rows = slice(int(ends[some] - counts[some]), int(ends[some]))
            make = functools.partial(whole.copy, rows, slice(int(begins[some]), int(stops[some])))
            cache.offer(id(self), int(numbers[some]), int(sizes[some]), int(last_uses[some]), make)
        return whole

    def _contents(self, offsets: Int64s, sizes: Int64s) -> tuple[Bytes, Int64s, Int64s]:
        """The contents of the blocks at these offsets (ascending), checked: memory, and where each lies in it."""
        lengths = sizes + TRAILER.size
        stops = np.cumsum(lengths)
        memory = self._memory.passing(int(stops[-1]))
        view = memory.data
        # Neighbours are read at once.
        borders = np.flatnonzero(offsets[1:] != offsets[:-1] + lengths[:-1]) + 1
        begins = stops - lengths
        opened = []
        for first, stop in zip([0, *borders.tolist()], [*borders.tolist(), len(offsets)], strict=True):
            self._file.read_into(int(offsets[first]), view[int(begins[first]) : int(stops[stop - 1])])
            for number in range(first, stop):
                stored = view[int(begins[number]) : int(stops[number])]
                opened.append(open_block(self.path, int(offsets[number]), stored, self.context.longest_block))
        if all(isinstance(content, memoryview) for content in opened):
            return memory, begins, stops - TRAILER.size
        memory = np.concatenate([np.frombuffer(content, np.uint8) for content in opened])
        lengths = np.array([len(content) for content in opened], np.int64)
        stops = np.cumsum(lengths)
        return memory, stops - lengths, stops

    def _index(self) -> _Index:
        def load() -> _Index:
            footer = self._footer
            place = np.array([footer.index_offset])
            entries = decode_contents(self.path, place, *self._contents(place, np.array([footer.index_size])))
            # The content passes through, and is not needed behind the handles.
            keys_alone = replace(entries, content=np.empty(0, np.uint8))
            block = _DataBlock(keys_alone, self._order.normalize(entries.keys), self._form)
            self._form = max(self._form, block.form)
            end = footer.bloom_offset if footer.bloom_keys else footer.index_offset
            offsets, sizes = block_handles(self.path, entries, end)
            return _Index(block, offsets, sizes, np.zeros(len(offsets), np.int64))

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
        if self.context.tail_checksum not in (None, crc32(tail)):
            raise CorruptFile(self.path, f"the checksum of filter, index and footer at byte {start} does not match")
        return tail


def _context_beside(path: str) -> SortContext:
    try:
        sidecar = Sidecar.read(path, "sort")
    except NotFound as problem:
        raise missing_context(path, problem) from problem
    return SortContext.from_sidecar(path, sidecar)
