"""Answers lookups from a hash file: all keys of a batch probe side by side. Format: ``hash_layout``.

A batch is split by key length, filtered by the Bloom filter, and probed in rounds: in each round every open key looks
into its next slots; it is done at a slot that is empty or holds the key. The first look is at one slot, which settles
more than half of the keys that exist; every further one is at four times as many, so that four or five rounds settle
all of them.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.compression import codec
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.hash_slots import home_slots
from paimon_spark.lookup.local_file import LocalFile
from paimon_spark.lookup.page_cache import AddressSpace
from paimon_spark.lookup.sidecar import Sidecar, missing_context
from paimon_spark.rows.byte_strings import (
    Bytes,
    ByteStrings,
    Int64s,
    Mask,
    as_binary,
    matrix_rows,
    matrix_strings,
    offsets_and_bytes,
)
from paimon_spark.rows.murmur import hash_bytes_many

_PAGE_LENGTH = struct.Struct(">i")
_WIDER = 4
_FARTHEST = 256
_FEW = 8


@dataclass(frozen=True)
class _FilterBits:
    bloom: BloomFilter

    @property
    def nbytes(self) -> int:
        return self.bloom.bits.nbytes


class HashReader:
    """One open hash file. Safe to share between threads."""

    def __init__(self, path: str, context: HashContext | None, memory: LookupMemory) -> None:
        """Open the file at ``path``; without a context, by the one beside it.

        :raises NotFound: no such file
        :raises CorruptFile: the file, or its context, is damaged, cut short or not a hash file
        """
        self.path = path
        self._file = LocalFile(path)
        try:
            self.context = _context_beside(path) if context is None else context
            self._check_size()
            self._codec = codec(self.context.compression)
        except BaseException:
            self._file.close()
            raise
        self._memory = memory
        self._space = AddressSpace(memory.pages, self.context.length, self.context.page_size, self._load)

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
        self._space.close()
        self._file.close()

    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None."""
        value: bytes | None = self.get_many([key])[0].as_py()
        return value

    def get_many(self, keys: ByteStrings) -> pa.BinaryArray:
        """The value of each key, null where the file has no such key.

        :raises CorruptFile: a page that these keys need is damaged
        """
        offsets, data = offsets_and_bytes(as_binary(keys, "keys"))
        lengths = np.diff(offsets)
        starts, sizes = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.int64)
        found = np.zeros(len(lengths), np.bool_)
        uniform = bool(len(lengths)) and bool((lengths == lengths[0]).all())
        for length in lengths[:1].tolist() if uniform else np.unique(lengths).tolist():
            if length >= len(self.context.key_counts) or not self.context.key_counts[length]:
                continue
            rows = np.flatnonzero(lengths == length)
            matrix = matrix_rows(offsets, data, None if uniform else rows, length)
            hit, where = self._find(matrix)
            hit = rows[hit]
            found[hit] = True
            sizes[hit], starts[hit] = self._space.sizes(where)
        if not found.any():
            return pa.nulls(len(found), pa.binary())
        if bool(((sizes < 0) | (starts + sizes > self.context.length)).any()):
            raise CorruptFile(self.path, "a value lies outside the file")
        return self._space.strings(starts, sizes, found)

    def _find(self, keys: Bytes) -> tuple[Int64s, Int64s]:
        """Which of these keys, all of one length, the file has, and where their values' records are."""
        context, length = self.context, keys.shape[1]
        hashes = hash_bytes_many(matrix_strings(keys))
        slots, width = context.slots[length], context.slot_sizes[length]
        index = context.index_offsets[length]
        rows = np.arange(len(keys))
        if context.bloom_keys:
            rows = np.flatnonzero(self._bloom().test(hashes))
        at = home_slots(hashes if len(rows) == len(keys) else hashes[rows], slots)
        hits, offsets = [], []
        reach = 1 if len(rows) * _FEW > len(keys) else _WIDER**2
        while len(rows):
            reach = min(reach, slots)
            probes = _Probes.read(self._space, index, slots, width, at, reach)
            ended, same = probes.compare(keys if len(rows) == len(keys) else keys[rows], length)
            hit = np.flatnonzero(same)
            hits.append(rows[hit])
            offsets.append(_offsets(probes.slots[hit, ended[hit]], length))
            rest = np.flatnonzero(ended < 0)
            rows, at = rows[rest], (probes.first[rest] + reach) % slots
            reach = min(reach * _WIDER, _FARTHEST)
        where = np.concatenate([np.empty(0, np.int64), *offsets])
        if bool(((where < 1) | (where >= context.length - context.data_offsets[length])).any()):
            raise CorruptFile(self.path, "a slot points outside the file")
        return np.concatenate([np.empty(0, np.int64), *hits]), where + context.data_offsets[length]

    def _bloom(self) -> BloomFilter:
        def load() -> _FilterBits:
            bits = self._space.rows(np.zeros(1, np.int64), self.context.bloom_bytes)[0]
            return _FilterBits(BloomFilter(bits, self.context.bloom_keys))

        return self._memory.priority.get(id(self), 0, load).bloom

    def _check_size(self) -> None:
        context, size = self.context, self._file.size
        expected = context.file_size
        if expected is None and context.page_starts is None:
            expected = context.length
        if expected is not None and size != expected:
            raise CorruptFile(self.path, f"it has {size} bytes, not {expected}")
        starts = context.page_starts
        pages = -(-context.length // context.page_size)
        if starts is not None and (len(starts) != pages or list(starts) != sorted(starts) or (pages and starts[0])):
            raise CorruptFile(self.path, "its context names other pages than the file has")
        if context.checksums is not None and len(context.checksums) != pages:
            raise CorruptFile(self.path, "its context has checksums of another number of pages")
        context.check(self.path)

    def _load(self, start: int, stop: int) -> bytes:
        size = self.context.page_size
        return b"".join(bytes(self._load_page(page)) for page in range(start // size, -(-stop // size)))

    def _load_page(self, page: int) -> bytes | pa.Buffer:
        context, starts = self.context, self.context.page_starts
        length = min(context.page_size, context.length - page * context.page_size)
        if starts is None:
            begin, end = page * context.page_size, page * context.page_size + length
        else:
            begin, end = starts[page], starts[page + 1] if page + 1 < len(starts) else self._file.size
        stored = self._file.read(begin, end - begin)
        if context.checksums is not None and zlib.crc32(stored) != int(context.checksums[page]):
            raise CorruptFile(self.path, f"the checksum of page {page} at byte {begin} does not match")
        if self._codec is None:
            return stored
        try:
            if len(stored) < _PAGE_LENGTH.size or _PAGE_LENGTH.unpack_from(stored)[0] != len(stored) - 4:
                raise ValueError("its length is wrong")
            return self._codec.decompress(memoryview(stored)[4:], length)
        except ValueError as problem:
            raise CorruptFile(self.path, f"page {page} at byte {begin}: {problem}") from problem


@dataclass(frozen=True)
class _Probes:
    """Consecutive slots for each of some keys: ``slots`` (keys × reach × width), the number of the ``first`` of them,
    and how many of them lie before the key's own place (``before``, above 0 only near the end of the table)."""

    slots: Bytes
    first: Int64s
    before: Int64s

    @staticmethod
    def read(space: AddressSpace, index: int, slots: int, width: int, at: Int64s, reach: int) -> _Probes:
        """``reach`` slots from ``at`` on; at the end of the table, its last ``reach`` slots."""
        first = at if reach == 1 else np.minimum(at, slots - reach)
        rows = space.rows(index + first * width, width * reach)
        return _Probes(rows.reshape(len(at), reach, width), first, at - first)

    def compare(self, keys: Bytes, length: int) -> tuple[Int64s, Mask]:
        """For each key, which of its slots ends the search, -1 for none, and whether that slot holds the key.

        The first byte of a slot's offset is zero only if the offset is.
        """
        empty = self.slots[:, :, length] == 0
        same = self._equal(keys, length)
        same &= ~empty
        if same.shape[1] == 1:
            return (same | empty)[:, 0].astype(np.int64) - 1, same[:, 0]
        ends = same | empty
        if self.before.any():
            ends &= np.arange(ends.shape[1]) >= self.before[:, None]
        ended = ends.argmax(axis=1)
        everyone = np.arange(len(ends))
        found = ends[everyone, ended]
        return np.where(found, ended, -1), found & same[everyone, ended]

    def _equal(self, keys: Bytes, length: int) -> Mask:
        """Which slots hold their key: compared in words of 8, 4, 2 or 1 bytes, the last word overlapping the one before
        where the length is no multiple."""
        same = np.ones(self.slots.shape[:2], np.bool_)
        if not length or not len(keys):
            return same
        keys = np.ascontiguousarray(keys)
        word = next(size for size in (8, 4, 2, 1) if size <= length)
        for at in (*range(0, length - word, word), length - word):
            slots = np.ndarray(same.shape, f"<u{word}", self.slots, at, self.slots.strides[:2])
            wanted = np.ndarray((len(keys), 1), f"<u{word}", keys, at, (keys.strides[0], 0))
            same &= slots == wanted
        return same


def _offsets(slots: Bytes, length: int) -> Int64s:
    """The offsets behind the keys of slots. They are padded with zeros, so every byte may be added up."""
    offsets = np.zeros(len(slots), np.int64)
    for group in range(slots.shape[1] - length):
        offsets |= (slots[:, length + group] & np.uint8(0x7F)).astype(np.int64) << (7 * group)
    return offsets


def _context_beside(path: str) -> HashContext:
    try:
        sidecar = Sidecar.read(path, "hash")
    except NotFound as problem:
        raise missing_context(path, problem) from problem
    return HashContext.from_sidecar(path, sidecar)
