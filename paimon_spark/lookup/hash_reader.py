"""Answers lookups from a hash file: all keys of a batch probe side by side. Format: ``hash_layout``.

A batch is split by key length, filtered by the Bloom filter, and probed in rounds: in each round every open key looks
into its next slot; it is done when the slot is empty or holds the key. Most keys are done after two rounds. The few
with a long way look into twice as many slots in every further round, so the number of rounds stays near ten.
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
_FARTHEST = 256


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
        reach = 1
        for _ in range(slots):
            if not len(rows):
                break
            looked = at[:, None] + np.arange(reach)
            looked[looked >= slots] %= slots
            probed = self._space.rows((index + looked * width).ravel(), width)
            offset = _offsets(probed, length)
            wanted = keys if len(rows) == len(keys) else keys[rows]
            same = _equal_rows(probed, wanted if reach == 1 else wanted.repeat(reach, axis=0), length) & (offset != 0)
            ended = (same | (offset == 0)).reshape(-1, reach)
            first = np.arange(len(rows)) * reach + (ended.argmax(axis=1) if reach > 1 else 0)
            hit = same[first]
            hits.append(rows[hit])
            offsets.append(offset[first[hit]])
            rest = np.flatnonzero(~ended.any(axis=1))
            rows, at = rows[rest], (at[rest] + reach) % slots
            reach = min(2 * reach, _FARTHEST, slots) if len(rest) * reach * 4 < len(keys) else reach
        where = np.concatenate([np.empty(0, np.int64), *offsets])
        if bool(((where < 0) | (where >= context.length - context.data_offsets[length])).any()):
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


def _offsets(probed: Bytes, length: int) -> Int64s:
    """The offsets behind the keys of probed slots. They are padded with zeros, so every byte may be added up."""
    offsets = np.zeros(len(probed), np.int64)
    for group in range(probed.shape[1] - length):
        offsets |= (probed[:, length + group] & np.uint8(0x7F)).astype(np.int64) << (7 * group)
    return offsets


def _equal_rows(probed: Bytes, keys: Bytes, length: int) -> Mask:
    """Which keys equal the first ``length`` bytes of their probed slot: compared in words of 8, 4, 2 or 1 bytes, the
    last word overlapping the one before where the length is no multiple."""
    count = len(keys)
    same = np.ones(count, np.bool_)
    if not length or not count:
        return same
    keys = np.ascontiguousarray(keys)
    word = next(size for size in (8, 4, 2, 1) if size <= length)
    for at in (*range(0, length - word, word), length - word):
        left = np.ndarray((count,), f"<u{word}", probed, at, (probed.strides[0],))
        right = np.ndarray((count,), f"<u{word}", keys, at, (keys.strides[0],))
        same &= left == right
    return same


def _context_beside(path: str) -> HashContext:
    try:
        sidecar = Sidecar.read(path, "hash")
    except NotFound as problem:
        raise missing_context(path, problem) from problem
    return HashContext.from_sidecar(path, sidecar)
