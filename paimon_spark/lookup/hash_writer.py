"""Builds a hash file in two phases: collect the keys and values, then place the keys and write the file.

While keys come in, they stay in memory with their hashes and offsets (about key length + 12 bytes a key), and so do the
first 64 MiB of values; the others go to a temporary file beside the target. ``close`` places the keys of each length
(``hash_slots``) and writes the filter, the index sections and the data sections. Format: ``hash_layout``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import strings, to_arrow, to_numpy
from paimon_spark.checksum import crc32
from paimon_spark.errors import InvalidInput, StorageError
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.compression import Codec
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.hash_slots import place_keys, slot_count
from paimon_spark.lookup.local_file import NewFile
from paimon_spark.lookup.record_layout import records
from paimon_spark.rows.byte_strings import (
    Bytes,
    ByteStrings,
    Int32s,
    Int64s,
    Mask,
    as_binary,
    matrix_rows,
    matrix_strings,
    offsets_and_bytes,
    varint_sizes,
)
from paimon_spark.rows.murmur import hash_bytes_many

_COPY = 2**22
_MOST_SLOTS = 2**31 - 1
_BUFFERED_ROWS = 4096
_BATCH_BYTES = 2**29
_MOST_IN_MEMORY = 2**26
_WIDTH_OF_32_BITS = 5
_CHECKED = 4096
"""Bytes under one checksum where nothing is compressed; no more need to be read for one value."""

_Extent: TypeAlias = tuple[int, int]


@dataclass
class _Section:
    """The keys of one length, in the order they came, and where their values went."""

    keys: list[Bytes] = field(default_factory=list)
    hashes: list[Int32s] = field(default_factory=list)
    offsets: list[Int64s] = field(default_factory=list)
    data: list[memoryview | _Extent] = field(default_factory=list)
    count: int = 0
    data_length: int = 1
    last_value: pa.BinaryArray | None = None
    last_offset: int = 0


class HashWriter:
    """Writes one hash file; see :class:`paimon_spark.lookup.HashLookupStore` for the meaning of the arguments."""

    def __init__(
        self, path: str, rows: int, bloom_fpp: float | None, codec: Codec | None, page_size: int, load_factor: float
    ) -> None:
        self.path = path
        self._bloom = None if bloom_fpp is None or rows <= 0 else BloomFilter.sized(rows, bloom_fpp)
        self._load_factor = load_factor
        self._sections: dict[int, _Section] = {}
        self._waiting: list[tuple[bytes, bytes]] = []
        self._in_memory = 0
        self._spilled: NewFile | None = None
        self._out = _PagedOutput(NewFile(path), codec, page_size)

    def put(self, key: bytes, value: bytes) -> None:
        """Add one pair; errors may surface at a later call."""
        self._waiting.append((key, value))
        if len(self._waiting) >= _BUFFERED_ROWS:
            self._flush()

    def put_many(self, keys: ByteStrings, values: ByteStrings) -> None:
        """Add pairs.

        :raises InvalidInput: nulls, or not as many keys as values
        :raises StorageError: the disk is full or fails; nothing is left of the file then
        """
        self._flush()
        self._put_or_abort(as_binary(keys, "keys"), as_binary(values, "values"))

    def close(self) -> HashContext:
        """Write the file and return its context.

        :raises InvalidInput: a key was put twice
        :raises StorageError: the disk is full or fails
        """
        try:
            self._flush()
            context = self._finish()
            self._out.file.close()
            context.sidecar().write(self.path)
        except BaseException:
            self.abort()
            raise
        self._forget_values()
        return context

    def abort(self) -> None:
        """Delete what was written."""
        self._forget_values()
        self._out.file.discard()

    def _forget_values(self) -> None:
        self._sections = {}
        if self._spilled is not None:
            self._spilled.discard()

    def _flush(self) -> None:
        if self._waiting:
            keys, values = zip(*self._waiting, strict=True)
            self._waiting = []
            self._put_or_abort(as_binary(keys, "keys"), as_binary(values, "values"))

    def _put_or_abort(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        try:
            self._put(keys, values)
        except StorageError:
            self.abort()
            raise

    def _put(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        if len(keys) != len(values):
            raise InvalidInput(f"{len(keys)} keys came with {len(values)} values")
        if keys.nbytes + values.nbytes > _BATCH_BYTES and len(keys) > 1:
            half = len(keys) // 2
            self._put(keys[:half], values[:half])
            self._put(keys[half:], values[half:])
            return
        offsets, data = offsets_and_bytes(keys)
        lengths = np.diff(offsets)
        if not len(lengths):
            return
        if (lengths == lengths[0]).all():
            self._put_group(matrix_rows(offsets, data, None, int(lengths[0])), values)
            return
        order = np.argsort(lengths, kind="stable")
        values = values.take(to_arrow(order))
        borders = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1))
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            rows = order[start:stop]
            self._put_group(matrix_rows(offsets, data, rows, int(lengths[rows[0]])), values[start:stop])

    def _put_group(self, keys: Bytes, values: pa.BinaryArray) -> None:
        """Add pairs whose keys have one length."""
        section = self._sections.setdefault(keys.shape[1], _Section())
        fresh = _differs_from_previous(values, section.last_value)
        stored = values if fresh.all() else values.filter(to_arrow(fresh))
        if len(stored):
            ends, data = offsets_and_bytes(records(stored))
            starts = ends[:-1] + (section.data_length - int(ends[0]))
            self._store(section, data[int(ends[0]) : int(ends[-1])].data)
        else:
            starts = np.empty(0, np.int64)
        offsets = np.concatenate((np.array([section.last_offset]), starts))[np.cumsum(fresh)]
        section.keys.append(np.array(keys))
        section.hashes.append(hash_bytes_many(matrix_strings(keys)))
        section.offsets.append(offsets)
        section.count += len(keys)
        section.last_value = strings([values[len(values) - 1].as_py()], pa.binary())
        section.last_offset = int(offsets[-1])

    def _store(self, section: _Section, data: memoryview) -> None:
        section.data_length += len(data)
        if self._in_memory + len(data) <= _MOST_IN_MEMORY:
            self._in_memory += len(data)
            section.data.append(data)
            return
        if self._spilled is None:
            self._spilled = NewFile(self.path + ".values")
        section.data.append((self._spilled.size, len(data)))
        self._spilled.append(data)

    def _finish(self) -> HashContext:
        lengths = range(max(self._sections, default=-1) + 1)
        counts, slot_sizes, slots, index_offsets, data_offsets = ([0] * len(lengths) for _ in range(5))
        tables: list[Bytes] = []
        bloom_bytes = self._add_bloom()
        end = bloom_bytes
        for length in sorted(self._sections):
            section = self._sections[length]
            table = self._build_index(section)
            counts[length], slots[length], slot_sizes[length] = section.count, *table.shape
            index_offsets[length] = end
            end += table.size
            self._out.append(table.data.cast("B"))
            tables.clear()
        for length in lengths:
            data_offsets[length] = end
            end += self._sections[length].data_length if length in self._sections else 0
        for length in sorted(self._sections):
            self._copy_values(self._sections[length])
        self._out.finish()
        out = self._out
        return HashContext(
            0 if self._bloom is None else self._bloom.keys,
            bloom_bytes,
            tuple(counts),
            tuple(slot_sizes),
            tuple(slots),
            tuple(index_offsets),
            tuple(data_offsets),
            end,
            out.page_size,
            "none" if out.codec is None else out.codec.name,
            None if out.codec is None else tuple(out.page_starts),
            out.file.size,
            np.array(out.checksums, np.uint32),
        )

    def _add_bloom(self) -> int:
        if self._bloom is None:
            return 0
        parts = [hashes for section in self._sections.values() for hashes in section.hashes]
        if parts:
            self._bloom.add(np.concatenate(parts))
        self._out.append(self._bloom.bits.data)
        return self._bloom.bits.size

    def _build_index(self, section: _Section) -> Bytes:
        keys = np.concatenate(section.keys)
        offsets = np.concatenate(section.offsets)
        hashes = np.concatenate(section.hashes)
        section.keys, section.hashes, section.offsets = [], [], []
        slots = slot_count(len(keys), self._load_factor)
        if slots > _MOST_SLOTS:
            raise InvalidInput(f"{len(keys)} keys of one length are too many for one lookup file")
        holders = place_keys(keys, hashes, slots)
        widest = int(varint_sizes(offsets.max(initial=0, keepdims=True))[0])
        key_length = keys.shape[1]
        # One row more than keys, all zero: what an empty slot holds.
        rows = np.zeros((len(keys) + 1, key_length + widest), np.uint8)
        rows[:-1, :key_length] = keys
        rest = offsets.astype(np.uint32 if widest < _WIDTH_OF_32_BITS else np.uint64)
        for group in range(widest):
            rows[:-1, key_length + group] = rest.astype(np.uint8) & 0x7F | (rest >= 0x80).view(np.uint8) << 7
            rest >>= 7
        width = rows.shape[1]
        table: Bytes = rows.view(f"V{width}").ravel().take(holders).view(np.uint8).reshape(slots, width)
        return table

    def _copy_values(self, section: _Section) -> None:
        self._out.append(b"\x00")
        for part in section.data:
            if isinstance(part, memoryview):
                self._out.append(part)
                continue
            start, length = part
            assert self._spilled is not None
            for at in range(start, start + length, _COPY):
                self._out.append(self._spilled.read(at, min(_COPY, start + length - at)))


def _differs_from_previous(values: pa.BinaryArray, last: pa.BinaryArray | None) -> Mask:
    """Which values are not equal to the one before them; the first is compared with ``last``."""
    differs = np.ones(len(values), np.bool_)
    differs[1:] = to_numpy(pc.not_equal(values[1:], values[:-1]))
    differs[0] = last is None or values[0].as_py() != last[0].as_py()
    return differs


class _PagedOutput:
    """Appends to the file in pages: counts a checksum of each and compresses it where a codec is given."""

    def __init__(self, file: NewFile, codec: Codec | None, page_size: int) -> None:
        self.file = file
        self.codec = codec
        self.page_size = min(page_size, _CHECKED) if codec is None else page_size
        self.page_starts: list[int] = []
        self.checksums: list[int] = []
        self._rest = bytearray()

    def append(self, data: bytes | memoryview) -> None:
        at = 0
        view = memoryview(data)
        if self._rest:
            at = min(len(view), self.page_size - len(self._rest))
            self._rest += view[:at]
            if len(self._rest) == self.page_size:
                self.finish()
        stop = at + (len(view) - at) // self.page_size * self.page_size
        self._write(view[at:stop])
        self._rest += view[stop:]

    def finish(self) -> None:
        """Write what does not fill a page."""
        self._write(memoryview(bytes(self._rest)))
        self._rest = bytearray()

    def _write(self, pages: memoryview) -> None:
        size = self.page_size
        if self.codec is None:
            self.checksums += [crc32(pages[at : at + size]) for at in range(0, len(pages), size)]
            self.file.append(pages)
            return
        for at in range(0, len(pages), size):
            packed = self.codec.compress(pages[at : at + size])
            page = len(packed).to_bytes(4, "big") + packed
            self.page_starts.append(self.file.size)
            self.checksums.append(crc32(page))
            self.file.append(page)
