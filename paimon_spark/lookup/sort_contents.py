"""The contents of a sort file's data blocks: read whole for their keys, and asked for values by their places.

Where the sidecar says how to check less than a block, values are read by pages (``value_pages``, ``page_cache``): a
value of a few hundred bytes costs a page and not its block. Contents of other blocks are kept as they are
(``block_cache``); those that are missing are read and unpacked 8 MiB at a time, beyond the bound of the cache, which
takes of them what it has room for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from paimon_spark.errors import NotFound
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.key_order import KeyOrder
from paimon_spark.lookup.key_table import BlockRows
from paimon_spark.lookup.listed_keys import ListedKeys
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.page_cache import PASSING, AddressSpace
from paimon_spark.lookup.sort_layout import TRAILER, SortContext
from paimon_spark.lookup.stored_blocks import StoredBlocks
from paimon_spark.lookup.value_pages import PackedPages, PlainPages
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

    def __init__(
        self, file: LocalFile, context: SortContext, places: BlockPlaces, data_end: int, memory: LookupMemory
    ) -> None:
        """The contents of the blocks at these places in ``file``, which stays the caller's; the last one ends at
        ``data_end``.

        :raises CorruptFile: the context has checksums of other pages, or keys of other blocks, than the file has
        """
        self._owner = object()
        self._memory = memory
        self._file = file
        self._places = places
        self._longest = context.longest_block
        # Of a file that says nothing of its longest block, any block may unpack to much.
        self._step = max(1, PASSING // (context.longest_block or PASSING))
        self._pages: PlainPages | PackedPages | None = None
        if context.page_checksums is not None:
            self._pages = PlainPages(file, data_end, context.page_checksums, places.offsets, places.sizes)
        elif context.pieces is not None:
            self._pages = PackedPages(file, context.pieces, places.offsets, places.sizes)
        self._listed: ListedKeys | None = None
        if self._pages is not None:
            if context.keys is not None:
                # Of a file that was given without its sidecar, or has lost it, blocks are read for their keys.
                with contextlib.suppress(NotFound):
                    self._listed = ListedKeys(file.path, context.keys, self._pages.block_lengths)
            self._space = AddressSpace(memory.pages, self._pages.length, self._pages.size, self._pages.load)

    def close(self) -> None:
        """Give the memory back."""
        self._memory.blocks.drop(self._owner)
        if self._pages is not None:
            self._space.close()

    @property
    def files(self) -> list[LocalFile]:
        """The file in which keys are listed, if they are: the caller's from now on, to be closed."""
        return [] if self._listed is None else [self._listed.file]

    def listed_keys(self, numbers: Int64s, order: KeyOrder) -> Iterator[tuple[Int64s, BlockRows]]:
        """The keys of those of these blocks, ascending, that need not be read for them: some blocks at a time, whose
        keys have about 8 MiB at most, and their keys."""
        if self._listed is None:
            return
        numbers = numbers[self._listed.listed.take(numbers)]
        groups = np.cumsum(self._listed.sizes(numbers)) // PASSING
        for some in np.split(numbers, np.flatnonzero(np.diff(groups)) + 1):
            if len(some):
                yield some, self._listed.load(some, order)

    def groups(self, known: Mask, wanted: Mask) -> Iterator[Int64s]:
        """The numbers of those blocks that are ``wanted``: first all that are ``known``, then the others, about 8 MiB
        at a time."""
        missing = np.flatnonzero(wanted & ~known)
        steps = (missing[at : at + self._step] for at in range(0, len(missing), self._step))
        for some in (np.flatnonzero(wanted & known), *steps):
            if len(some):
                yield some

    def load(self, numbers: Int64s, now: int) -> Loaded:
        """The contents of these blocks, used ``now``; offered to the cache where values are not read by pages."""
        places = self._places
        loaded = read_blocks(self._file, places.offsets[numbers], places.sizes[numbers], self._memory, self._longest)
        sizes, last_uses, kept = loaded.stops - loaded.begins, places.last_use[numbers], np.arange(len(numbers))
        if self._pages is not None:
            self._pages.check_lengths(numbers, sizes)
            kept = np.flatnonzero(self._pages.begins[numbers] < 0)
        places.last_use[numbers] = now
        cache = self._memory.blocks
        for some in kept[cache.may_take(int(sizes.min()), last_uses[kept])].tolist():
            copy = loaded.memory[int(loaded.begins[some]) : int(loaded.stops[some])].copy
            cache.offer(self._owner, int(numbers[some]), int(sizes[some]), int(last_uses[some]), copy)
        return loaded

    def values(self, block_of: Int64s, starts: Int64s, lengths: Int64s) -> Iterator[Values]:
        """The values of these lengths that start at these places in the contents of their blocks, which ascend: in
        parts, each with the numbers of its values."""
        if not lengths.any():
            yield slice(None), strings_at(np.empty(0, np.uint8), starts, lengths)
        elif self._pages is None:
            yield from self._values_of_blocks(block_of, starts, lengths)
        else:
            begins = self._pages.begins[block_of]
            if int(begins.min()) >= 0:
                yield from self._values_of_pages(begins + starts, lengths)
                return
            paged, rest = np.flatnonzero(begins >= 0), np.flatnonzero(begins < 0)
            for which, values in self._values_of_pages((begins + starts)[paged], lengths[paged]):
                yield paged[which], values
            for which, values in self._values_of_blocks(block_of[rest], starts[rest], lengths[rest]):
                yield rest[which], values

    def _values_of_pages(self, begins: Int64s, lengths: Int64s) -> list[Values]:
        """The values of these lengths at these addresses."""
        with self._space.lock:
            parts = self._space.parts(begins, begins + lengths)
            return [(which, strings_at(memory, at, lengths[which])) for memory, at, which in parts]

    def _values_of_blocks(self, block_of: Int64s, starts: Int64s, lengths: Int64s) -> Iterator[Values]:
        numbers, borders = np.unique(block_of, return_index=True)
        found, now = self._memory.blocks.find(self._owner, numbers.tolist())
        contents = cast("list[Bytes | None]", found)
        known = np.array([content is not None for content in contents], np.bool_)
        self._places.last_use[numbers[known]] = now
        counts, among = np.diff(borders, append=len(starts)), np.zeros(len(known), np.bool_)
        for some in self.groups(known, np.ones(len(known), np.bool_)):
            among[:], among[some] = False, True
            rows = np.flatnonzero(np.repeat(among, counts))
            which = np.searchsorted(numbers[some], block_of[rows])
            if known[some[0]]:
                memories = [content for content in contents if content is not None]
                yield rows, strings_in(memories, which, starts[rows], lengths[rows])
            else:
                loaded = self.load(numbers[some], now)
                yield rows, strings_at(loaded.memory, loaded.begins[which] + starts[rows], lengths[rows])


def read_blocks(
    file: LocalFile, offsets: Int64s, sizes: Int64s, memory: LookupMemory, longest: int | None = None
) -> Loaded:
    """The contents of blocks at these offsets, ascending, with payloads of these sizes; none of more than ``longest``
    bytes, where that is known."""
    room = memory.passing(int(sizes.sum()) + len(sizes) * TRAILER.size)
    return Loaded(*StoredBlocks(file, longest).load(offsets, sizes, room))
