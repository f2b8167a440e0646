"""The keys of a sort file's blocks that are listed beside it, read for a lookup. Format: ``block_keys``."""

from __future__ import annotations

import numpy as np

from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.block_keys import DIFFER, BlockKeys
from paimon_spark.lookup.key_order import KeyOrder
from paimon_spark.lookup.key_search import search_keys
from paimon_spark.lookup.key_table import BlockRows
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.page_checksums import read_checked
from paimon_spark.lookup.sidecar import sidecar_path
from paimon_spark.lookup.sort_layout import TAIL_SIZE
from paimon_spark.rows.byte_strings import Bytes, Int64s, Mask, matrix_strings, rows_at, strings_at, varint_sizes

_NUMBER = 4


class ListedKeys:
    """The listed keys of an open sort file, in ``file``. Every key that it hands out was checked after it was read."""

    def __init__(self, path: str, keys: BlockKeys, contents: Int64s) -> None:
        """The keys beside the file at ``path``, whose blocks have contents of these lengths.

        :raises NotFound: there is no sidecar
        :raises CorruptFile: the parts do not fit the sidecar or the blocks
        """
        self._keys = keys
        self._contents = contents
        self._starts = np.cumsum(keys.sizes) - keys.sizes
        self._alike = keys.key_lengths != DIFFER
        self.listed: Mask = keys.entries > 0
        self.file = LocalFile(sidecar_path(path))
        if len(contents) != len(keys.entries) or not self._fit():
            self.file.close()
            raise CorruptFile(self.file.path, "it lists the keys of other blocks than the file has")

    def _fit(self) -> bool:
        """Whether the parts lie in the sidecar, and have and say as much as their numbers of entries need."""
        keys = self._keys
        content = _entry_sizes(keys.key_lengths, keys.value_lengths) * keys.entries + TAIL_SIZE
        alike = (content == self._contents) & (keys.key_lengths * keys.entries == keys.sizes)
        right = np.where(self._alike, alike, 2 * _NUMBER * keys.entries <= keys.sizes)
        return bool(right[self.listed].all()) and int(keys.sizes.sum()) <= self.file.size

    def sizes(self, blocks: Int64s) -> Int64s:
        """The bytes that it has to read for each of these blocks."""
        return self._keys.sizes.take(blocks)

    def load(self, blocks: Int64s, order: KeyOrder) -> BlockRows:
        """The keys of these blocks, ascending, which are listed.

        :raises CorruptFile: they are damaged, or not those of the blocks
        """
        keys, sizes, counts = self._keys, self._keys.sizes.take(blocks), self._keys.entries.take(blocks)
        memory = np.empty(int(sizes.sum()), np.uint8)
        read_checked(self.file, self._starts.take(blocks), sizes, keys.checksums.take(blocks), memory)
        lengths, values = keys.key_lengths.take(blocks), keys.value_lengths.take(blocks)
        if not self._alike.take(blocks).all():
            return self._unlike(blocks, memory, order)
        steps = _entry_sizes(lengths, values)
        alike = np.stack((steps - values, steps, values), axis=1)
        if (lengths == lengths[0]).all():
            texts = matrix_strings(memory.reshape(-1, int(lengths[0])))
        else:
            each = np.repeat(lengths, counts)
            texts = strings_at(memory, np.cumsum(each) - each, each)
        return BlockRows(search_keys(order.normalize(texts)), counts, alike, None)

    def _unlike(self, blocks: Int64s, memory: Bytes, order: KeyOrder) -> BlockRows:
        """What :meth:`load` gives where lengths differ, the parts being in ``memory``."""
        keys, alike = self._keys, self._alike.take(blocks)
        sizes, counts = keys.sizes.take(blocks), keys.entries.take(blocks)
        begins, block_of = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(blocks)), counts)
        firsts = np.cumsum(counts) - counts
        lengths, values = (np.repeat(column.take(blocks), counts) for column in (keys.key_lengths, keys.value_lengths))
        before = np.where(alike, 0, 2 * _NUMBER * counts)
        odd = np.flatnonzero(~alike.take(block_of))
        at = (begins - _NUMBER * firsts).take(block_of[odd]) + _NUMBER * odd
        lengths[odd] = rows_at(memory, at, _NUMBER).view("<u4").ravel()
        values[odd] = rows_at(memory, at + _NUMBER * counts.take(block_of[odd]), _NUMBER).view("<u4").ravel()
        entry_sizes = _entry_sizes(lengths, values)
        tails = self._contents.take(blocks) - np.add.reduceat(entry_sizes, firsts)
        if (np.add.reduceat(lengths, firsts) + before != sizes).any() or (
            (tails != TAIL_SIZE) & (tails != TAIL_SIZE + _NUMBER * counts)
        ).any():
            raise self._corrupt()
        texts = strings_at(memory, (begins + before).take(block_of) + _within(lengths, firsts, block_of), lengths)
        places = np.stack((_within(entry_sizes, firsts, block_of) + entry_sizes - values, values), axis=1)
        return BlockRows(search_keys(order.normalize(texts)), counts, None, places.astype(np.int32))

    def _corrupt(self) -> CorruptFile:
        return CorruptFile(self.file.path, "the keys that it lists are not those of the blocks")


def _entry_sizes(key_lengths: Int64s, value_lengths: Int64s) -> Int64s:
    """How many bytes entries with keys and values of these lengths have in the contents of their blocks."""
    return varint_sizes(key_lengths) + key_lengths + varint_sizes(value_lengths) + value_lengths


def _within(sizes: Int64s, firsts: Int64s, block_of: Int64s) -> Int64s:
    """Where each of things of these sizes starts in its block, whose first one has the number in ``firsts``."""
    starts = np.cumsum(sizes) - sizes
    within: Int64s = starts - starts.take(firsts).take(block_of)
    return within
