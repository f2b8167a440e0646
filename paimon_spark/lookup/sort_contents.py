"""The contents of a sort file's data blocks: read whole for their keys, and asked for values by their places.

Where the sidecar has checksums of the pages of the file, which is so if nothing is compressed, values are read by pages
(``page_cache``): a value of a few hundred bytes costs a page and not its block. Otherwise contents are kept as they are
(``block_cache``); those that are missing are read and unpacked 8 MiB at a time, beyond the bound of the cache, which
takes of them what it has room for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.block_cache import PASSING, LookupMemory
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.page_cache import AddressSpace
from paimon_spark.lookup.sidecar import Checksums
from paimon_spark.lookup.sort_layout import PAGE_SIZE, TRAILER, Footer, SortContext
from paimon_spark.lookup.stored_blocks import StoredBlocks
from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, strings_at, strings_in

Values: TypeAlias = "tuple[Int64s | slice, pa.BinaryArray]"


@dataclass(frozen=True)
class BlockPlaces:
    """Offset and payload size of each data block, and when its content was used last."""

    offsets: Int64s
    sizes: Int64s
    last_use: Int64s


@dataclass(frozen=True)
class Loaded:
    """Contents of some blocks: where each begins and stops in memory, which is valid until the next are loaded."""

    memory: Bytes
    begins: Int64s
    stops: Int64s


class SortContents:
    """The contents of one file's blocks."""

    def __init__(self, file: LocalFile, context: SortContext, footer: Footer, memory: LookupMemory) -> None:
        """The contents of the blocks in ``file``, which stays the caller's.

        :raises CorruptFile: the context has checksums of another number of pages
        """
        self._memory = memory
        self._file = file
        self._longest = context.longest_block
        # Of a file that says nothing of its longest block, any block may unpack to much.
        self._step = max(1, PASSING // (context.longest_block or PASSING))
        self._space: AddressSpace | None = None
        if context.page_checksums is not None:
            pages = _Pages(file, footer.data_end, context.page_checksums)
            self._space = AddressSpace(memory.pages, footer.data_end, PAGE_SIZE, pages.load)

    def close(self) -> None:
        """Give the memory back."""
        self._memory.blocks.drop(id(self))
        if self._space is not None:
            self._space.close()

    def groups(self, known: Mask, borders: Int64s, count: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Blocks and the rows that need them, each block's beginning at its border, ``count`` in all: first all blocks
        that are ``known``, then the others, about 8 MiB at a time."""
        counts = np.diff(borders, append=count)
        missing = np.flatnonzero(~known)
        steps = (missing[at : at + self._step] for at in range(0, len(missing), self._step))
        for some in (np.flatnonzero(known), *steps):
            if len(some):
                among = np.zeros(len(known), np.bool_)
                among[some] = True
                yield some, np.flatnonzero(np.repeat(among, counts))

    def read(self, offsets: Int64s, sizes: Int64s, longest: int | None = None) -> Loaded:
        """The contents of blocks at these offsets, ascending, with payloads of these sizes; none of more than
        ``longest`` bytes, where that is known."""
        room = self._memory.passing(int(sizes.sum()) + len(sizes) * TRAILER.size)
        return Loaded(*StoredBlocks(self._file, longest).load(offsets, sizes, room))

    def load(self, places: BlockPlaces, numbers: Int64s, now: int) -> Loaded:
        """The contents of these blocks, used ``now``; offered to the cache where values are not read by pages."""
        loaded = self.read(places.offsets[numbers], places.sizes[numbers], self._longest)
        last_uses = places.last_use[numbers]
        places.last_use[numbers] = now
        if self._space is None:
            sizes, cache = loaded.stops - loaded.begins, self._memory.blocks
            for some in cache.may_take(int(sizes.min()), last_uses).tolist():
                copy = loaded.memory[int(loaded.begins[some]) : int(loaded.stops[some])].copy
                cache.offer(id(self), int(numbers[some]), int(sizes[some]), int(last_uses[some]), copy)
        return loaded

    def values(self, places: BlockPlaces, block_of: Int64s, starts: Int64s, lengths: Int64s) -> Iterator[Values]:
        """The values of these lengths that start at these places in the contents of their blocks, which ascend: in
        parts, each with the numbers of its values."""
        if not lengths.any():
            yield slice(None), strings_at(np.empty(0, np.uint8), starts, lengths)
        elif self._space is not None:
            begins = places.offsets[block_of] + starts
            with self._space.lock:
                parts = self._space.parts(begins, begins + lengths)
                found = [(which, strings_at(memory, at, lengths[which])) for memory, at, which in parts]
            yield from found
        else:
            yield from self._values_of_blocks(places, block_of, starts, lengths)

    def _values_of_blocks(
        self, places: BlockPlaces, block_of: Int64s, starts: Int64s, lengths: Int64s
    ) -> Iterator[Values]:
        numbers, borders = np.unique(block_of, return_index=True)
        found, now = self._memory.blocks.find(id(self), numbers.tolist())
        contents = cast("list[Bytes | None]", found)
        known = np.array([content is not None for content in contents], np.bool_)
        places.last_use[numbers[known]] = now
        for some, rows in self.groups(known, borders, len(starts)):
            which = np.searchsorted(numbers[some], block_of[rows])
            if known[some[0]]:
                memories = [content for content in contents if content is not None]
                yield rows, strings_in(memories, which, starts[rows], lengths[rows])
            else:
                loaded = self.load(places, numbers[some], now)
                yield rows, strings_at(loaded.memory, loaded.begins[which] + starts[rows], lengths[rows])


class _Pages:
    """The pages of the data blocks of a file without compression."""

    def __init__(self, file: LocalFile, length: int, checksums: Checksums) -> None:
        self._file = file
        self._length = length
        self._checksums = checksums
        if len(checksums) != -(-length // PAGE_SIZE):
            raise CorruptFile(file.path, "its context has checksums of another number of pages")

    def load(self, pages: Int64s, room: Bytes) -> Bytes:
        """The bytes of these pages, ascending, one after another, in ``room``: checked."""
        begins = pages * PAGE_SIZE
        lengths = np.minimum(begins + PAGE_SIZE, self._length) - begins
        memory = room[: int(lengths.sum())]
        found = list(map(crc32, self._file.read_parts(begins, lengths, memory)))
        wrong = np.array(found, np.uint32) != self._checksums.take(pages)
        if wrong.any():
            raise CorruptFile(self._file.path, f"the checksum of the page at byte {begins[wrong][0]} does not match")
        return memory
