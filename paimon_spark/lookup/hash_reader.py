"""Answers lookups from a hash file: all keys of a batch probe side by side. Format: ``hash_layout``.

A batch is split by key length, filtered by the Bloom filter, and probed in rounds: in each round every open key looks
into its next slots; it is done at a slot that is empty or holds the key. The first look is at one slot, which settles
more than half of the keys that exist; every further one is at four times as many, so that four or five rounds settle
all of them. Of long keys, a look takes in no more slots than have 16 KiB.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.hash_slots import home_slots
from paimon_spark.lookup.page_cache import AddressSpace
from paimon_spark.lookup.records import Records
from paimon_spark.lookup.store_reader import StoreReader, sidecar_beside
from paimon_spark.lookup.stored_pages import StoredPages
from paimon_spark.rows.byte_strings import (
    Bytes,
    ByteStrings,
    Int32s,
    Int64s,
    Mask,
    as_binary,
    matrix_rows,
    offsets_and_bytes,
)
from paimon_spark.rows.murmur import hash_matrix

AnyArray: TypeAlias = npt.NDArray[Any]
UInt64s: TypeAlias = npt.NDArray[np.uint64]

_REACHES = (1, 5, 20, 128)
_FARTHEST = 2**14
_FEW = 8
_TAIL = 8
_PICKED = 64
_MOST_OF_PICKED = 0.75


class HashReader(StoreReader):
    """One open hash file. Safe to share between threads."""

    def __init__(self, path: str, context: HashContext | None, memory: LookupMemory) -> None:
        """Open the file at ``path``; without a context, by the one beside it.

        :raises NotFound: no such file
        :raises CorruptFile: the file, or its context, is damaged, cut short or not a hash file
        """
        super().__init__(path, memory)
        try:
            self.context = HashContext.from_sidecar(path, sidecar_beside(path, "hash")) if context is None else context
            pages = StoredPages(self._file, self.context)
        except BaseException:
            self._file.close()
            raise
        starts = (at for at, count in zip(self.context.data_offsets, self.context.key_counts, strict=True) if count)
        index_end = min(starts, default=0)
        self._space = AddressSpace(memory.pages, self.context.length, pages.size, pages.load, index_end)
        self._records = Records(path, self._space)

    def close(self) -> None:
        """Close the file and give its memory back."""
        self._space.close()
        super().close()

    def get_many(self, keys: ByteStrings) -> pa.BinaryArray:
        """The value of each key, null where the file has no such key.

        :raises CorruptFile: a page that these keys need, or one that is read along with it, is damaged
        :raises InvalidInput: these are no byte strings, or their values have 2 GiB or more in all
        """
        offsets, data = offsets_and_bytes(as_binary(keys, "keys"))
        lengths = np.diff(offsets)
        if len(lengths) and bool((lengths == lengths[0]).all()):
            return self._records.read(self._find(matrix_rows(offsets, data, None, int(lengths[0]))))
        starts = np.zeros(len(lengths), np.int64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            starts[rows] = self._find(matrix_rows(offsets, data, rows, length))
        return self._records.read(starts)

    def _find(self, keys: Bytes) -> Int64s:
        """Where the record of each of these keys is, all of one length; 0 for those that the file has not."""
        context, length = self.context, keys.shape[1]
        if length >= len(context.key_counts) or not context.key_counts[length]:
            return np.zeros(len(keys), np.int64)
        hashes = hash_matrix(keys)
        rows = self._possible(hashes)
        wanted = keys.view(f"V{length}").ravel() if length else np.empty(len(keys), "V1")
        if rows is not None:
            wanted, hashes = wanted.take(rows), hashes.take(rows)
        table = _Table(self._space, context, length)
        tails = table.find(wanted, home_slots(hashes, table.slots), len(wanted) * _FEW > len(keys))
        starts = table.offsets(tails)
        if bool((starts >= context.length - context.data_offsets[length]).any()):
            raise CorruptFile(self.path, "a slot points outside the file")
        found = starts != 0
        starts += context.data_offsets[length]
        starts *= found
        if rows is None:
            return starts
        everyone = np.zeros(len(keys), np.int64)
        everyone[rows] = starts
        return everyone

    def _possible(self, hashes: Int32s) -> Int64s | None:
        """Which keys the file may have; None: all. Where most of a few picked keys pass the filter, all count as
        possible: to ask for the rest would cost more than it saves."""
        if not self.context.bloom_keys:
            return None
        bloom = self._bloom()
        step = len(hashes) // _PICKED
        if step < 2 or len(bloom.passing(hashes[::step])) < _MOST_OF_PICKED * _PICKED:
            return bloom.passing(hashes)
        return None

    def _bloom(self) -> BloomFilter:
        def load() -> BloomFilter:
            bits = self._space.rows(np.zeros(1, np.int64), self.context.bloom_bytes)[0]
            return BloomFilter(bits, self.context.bloom_keys)

        return self._memory.priority.get(self._owner, 0, load)


class _Table:
    """The index section of the keys of one length."""

    def __init__(self, space: AddressSpace, context: HashContext, length: int) -> None:
        self._space = space
        self._length = length
        self._start = context.index_offsets[length]
        self._width = context.slot_sizes[length]
        self.slots = context.slots[length]
        self._farthest = max(1, min(self.slots, _FARTHEST // self._width))

    def find(self, keys: AnyArray, at: Int64s, many: bool) -> UInt64s:
        """The tail of the slot that holds each key, looked for from slot ``at`` on; 0 where none does. ``many``: begin
        with looks at few slots."""
        if not len(keys):
            return np.zeros(0, np.uint64)
        reaches = iter(_REACHES if many else _REACHES[2:])
        reach = min(next(reaches), self._farthest)
        tails, rest = self._probe(keys, at, reach)
        rows, seen = rest, reach
        while len(rows) and seen < 2 * self.slots:  # a full table has no empty slot to end a search
            keys, at = keys.take(rest), self._behind(at.take(rest), reach)
            reach = min(next(reaches, _REACHES[-1]), self._farthest)
            tails[rows], rest = self._probe(keys, at, reach)
            rows = rows.take(rest)
            seen += reach
        return tails

    def _probe(self, keys: AnyArray, at: Int64s, reach: int) -> tuple[UInt64s, Int64s]:
        """Look for each key in ``reach`` slots from ``at`` on, at the end of the table in fewer: the tails of the slots
        that hold them, 0 where none does, and which keys are still open.

        A search ends at a slot that holds the key or is empty: the first byte of its offset is zero then.
        """
        first = at
        if reach == 1:
            slots = self._space.table_rows(self._start, self.slots, self._width, at)
        else:
            first = np.minimum(at, self.slots - reach)
            slots = self._space.rows(self._start + first * self._width, self._width * reach)
        slots = slots.reshape(len(at), reach, self._width)
        filled = slots[:, :, self._length] != 0
        same = self._equal(slots, keys)
        same &= filled
        open_ = filled
        open_ ^= same
        if reach == 1:
            return self._tails(slots, same), np.flatnonzero(open_)
        if bool((first < at).any()):
            open_ |= np.arange(reach) < (at - first)[:, None]
        places = open_.argmin(axis=1)
        places += np.arange(0, open_.size, reach)
        open_ = open_.ravel().take(places)
        same = same.ravel().take(places)
        same &= ~open_
        return self._tails(slots.view(f"V{self._width}").ravel().take(places), same), np.flatnonzero(open_)

    def _behind(self, at: Int64s, reach: int) -> Int64s:
        """Where :meth:`_probe` with these arguments leaves off; the first slot is behind the last."""
        after: Int64s = at + reach
        after *= after < self.slots
        return after

    def offsets(self, tails: UInt64s) -> Int64s:
        """The offsets in the tails of slots; 0 in a tail of zeros.

        Offsets are padded with zeros, so all their bytes may be added up.
        """
        groups = self._width - self._length
        tails = tails >> np.uint64(64 - 8 * groups)
        offsets = tails & np.uint64(0x7F)
        for group in range(1, groups):
            tails >>= np.uint64(1)
            offsets |= tails & np.uint64(0x7F << (7 * group))
        numbers: Int64s = offsets.view(np.int64)
        return numbers

    def _equal(self, slots: Bytes, keys: AnyArray) -> Mask:
        """Which slots (keys × reach × width) hold their key: compared in words of 8, 4, 2 or 1 bytes, the last word
        overlapping the one before where the length is no multiple."""
        length = self._length
        if not length:
            return np.ones(slots.shape[:2], np.bool_)
        word = next(size for size in (8, 4, 2, 1) if size <= length)

        def equal(at: int) -> Mask:
            stored = np.ndarray(slots.shape[:2], f"<u{word}", slots, at, slots.strides[:2])
            same: Mask = stored == np.ndarray((len(keys), 1), f"<u{word}", keys, at, (length, 0))
            return same

        same = equal(length - word)
        for at in range(0, length - word, word):
            same &= equal(at)
        return same

    def _tails(self, slots: AnyArray, found: Mask) -> UInt64s:
        """The last eight bytes of the slots, one for each key, as one number each; 0 for those not ``found``."""
        tails = np.zeros(len(slots), "<u8")
        if self._width >= _TAIL:
            tails[:] = np.ndarray(tails.shape, "<u8", slots, self._width - _TAIL, (self._width,))
        else:
            tails.view(np.uint8).reshape(-1, _TAIL)[:, -self._width :] = slots.view(np.uint8).reshape(-1, self._width)
        tails *= found.ravel()
        return tails
