"""Builds a hash file in two phases: collect the keys and values, then place the keys and write the file.

While keys come in, they stay in memory with their hashes and offsets (about key length + 12 bytes a key). So do the
first 16 MiB of values; if all keys have one length by then, the values go to a temporary file beside the target from
then on, into the very pages that they will have (``paged_output``). Otherwise 64 MiB stay in memory, and the others go
to a temporary file as they are. ``close`` places the keys of each length (``hash_index``) and writes the filter, the
index sections and the data sections. Format: ``hash_layout``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import strings, to_arrow, to_numpy
from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.compression import Codec
from paimon_spark.lookup.hash_index import CollectedKeys, build_index
from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.hash_slots import slot_count
from paimon_spark.lookup.local_file import NewFile
from paimon_spark.lookup.paged_output import PagedOutput, PlacedValues
from paimon_spark.lookup.record_layout import records
from paimon_spark.lookup.store_writer import StoreWriter
from paimon_spark.rows.byte_strings import (
    Bytes,
    Int64s,
    Mask,
    matrix_rows,
    offsets_and_bytes,
    varint,
    varint_sizes,
)
from paimon_spark.rows.murmur import hash_matrix

_COPY = 2**22
_PIECE = 2**20
_MOST_SLOTS = 2**31 - 1
_PLACED_FROM = 2**24
_MOST_IN_MEMORY = 2**26

_Extent: TypeAlias = tuple[int, int]


@dataclass
class _Section:
    """The keys of one length, in the order they came, and where their values went."""

    keys: CollectedKeys = field(default_factory=CollectedKeys)
    data: list[memoryview | _Extent] = field(default_factory=list)
    placed: PlacedValues | None = None
    data_length: int = 1
    last_value: pa.BinaryArray | None = None
    last_offset: int = 0


class HashWriter(StoreWriter[HashContext]):
    """Writes one hash file; see :class:`paimon_spark.lookup.HashLookupStore` for the meaning of the arguments."""

    def __init__(
        self, path: str, rows: int, bloom_fpp: float | None, codec: Codec | None, page_size: int, load_factor: float
    ) -> None:
        super().__init__(path)
        self._bloom = None if bloom_fpp is None or rows <= 0 else BloomFilter.sized(rows, bloom_fpp)
        self._rows = rows
        self._load_factor = load_factor
        self._sections: dict[int, _Section] = {}
        self._in_memory = 0
        self._spilled: NewFile | None = None
        self._out = PagedOutput(NewFile(path), codec, page_size)

    def _discard(self) -> None:
        self._forget_values()
        self._out.file.discard()

    def _forget_values(self) -> None:
        for section in self._sections.values():
            if section.placed is not None:
                section.placed.discard()
        self._sections = {}
        if self._spilled is not None:
            self._spilled.discard()

    def _add(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        offsets, data = offsets_and_bytes(keys)
        lengths = np.diff(offsets)
        if (lengths == lengths[0]).all():
            self._put_group(matrix_rows(offsets, data, None, int(lengths[0])), values)
            return
        order = np.argsort(lengths, kind="stable")
        values = values.take(to_arrow(order))
        borders = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1))
        for start in borders[:-1].tolist():
            self._sections.setdefault(int(lengths[order[start]]), _Section())
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            rows = order[start:stop]
            self._put_group(matrix_rows(offsets, data, rows, int(lengths[rows[0]])), values[start:stop])

    def _put_group(self, keys: Bytes, values: pa.BinaryArray) -> None:
        """Add pairs whose keys have one length."""
        section = self._sections.setdefault(keys.shape[1], _Section())
        fresh = _differs_from_previous(values, section.last_value)
        stored = values if fresh.all() else values.filter(to_arrow(fresh))
        lengths = np.diff(offsets_and_bytes(stored)[0])
        ends = section.data_length + np.cumsum(lengths + varint_sizes(lengths))
        starts = np.concatenate((np.array([section.last_offset, section.data_length]), ends[:-1]))
        offsets = starts[: len(stored) + 1][np.cumsum(fresh)]
        section.keys.add(np.array(keys), hash_matrix(keys), offsets)
        section.last_value = strings([values[len(values) - 1].as_py()], pa.binary())
        section.last_offset = int(offsets[-1])
        self._store(section, stored, ends)

    def _store(self, section: _Section, values: pa.BinaryArray, ends: Int64s) -> None:
        """Add values to a section; the record of each ends at one of ``ends``."""
        at = 0
        while at < len(values):
            # Pieces stay in the processor's cache from here to the write.
            stop = max(at + 1, int(np.searchsorted(ends, section.data_length + _PIECE, side="right")))
            offsets, data = offsets_and_bytes(records(values[at:stop]))
            self._keep(section, data[int(offsets[0]) : int(offsets[-1])].data)
            section.data_length = int(ends[stop - 1])
            at = stop

    def _keep(self, section: _Section, data: memoryview) -> None:
        if section.placed is None and self._in_memory + len(data) > _PLACED_FROM:
            self._place(section)
        if section.placed is not None:
            section.placed.append(data)
        elif self._in_memory + len(data) <= _MOST_IN_MEMORY:
            self._in_memory += len(data)
            section.data.append(data)
        else:
            if self._spilled is None:
                self._spilled = NewFile(self.path + ".values")
            section.data.append((self._spilled.size, len(data)))
            self._spilled.append(data)

    def _place(self, section: _Section) -> None:
        """Put the values so far where they will be in the file, if that can be foreseen."""
        if len(self._sections) > 1 or section.keys.count > self._rows:
            return
        (length,) = self._sections
        slots, width = self._table_shape(length, self._rows, section.last_offset * self._rows // section.keys.count)
        start = self._bloom_bytes + slots * width
        content = list(self._content(section))
        section.placed = PlacedValues(self.path + ".pages", start, self._out.codec, self._out.page_size)
        section.data = []
        self._in_memory = 0
        for part in content:
            section.placed.append(part)

    def _table_shape(self, length: int, keys: int, last_offset: int) -> tuple[int, int]:
        """How many slots the index of ``keys`` keys has, and how wide they are."""
        return slot_count(keys, self._load_factor), length + len(varint(last_offset))

    @property
    def _bloom_bytes(self) -> int:
        return 0 if self._bloom is None else self._bloom.bits.size

    def _finish(self) -> HashContext:
        context = self._write_file()
        self._out.file.close()
        self._forget_values()
        return context

    def _write_file(self) -> HashContext:
        lengths = range(max(self._sections, default=-1) + 1)
        counts, slot_sizes, slots, index_offsets, data_offsets = ([0] * len(lengths) for _ in range(5))
        end = self._bloom_bytes
        for length, section in sorted(self._sections.items()):
            shape = self._table_shape(length, section.keys.count, section.last_offset)
            counts[length], slots[length], slot_sizes[length] = section.keys.count, *shape
            index_offsets[length] = end
            end += slots[length] * slot_sizes[length]
        placed = self._placed_at(end)
        for length in lengths:
            data_offsets[length] = end
            end += self._sections[length].data_length if length in self._sections else 0
        out = self._out
        if placed is not None:
            placed.prepare(out)
        self._add_bloom()
        for length, section in sorted(self._sections.items()):
            out.append(self._index(length, section).data.cast("B"))
        if placed is not None:
            placed.complete(out)
        else:
            self._copy_values()
        context = HashContext(
            0 if self._bloom is None else self._bloom.keys,
            self._bloom_bytes,
            tuple(counts),
            tuple(slot_sizes),
            tuple(slots),
            tuple(index_offsets),
            tuple(data_offsets),
            end,
            out.page_size,
            "none" if out.codec is None else out.codec.name,
            None,
            out.file.size,
            np.array(out.checksums, np.uint32),
            first_page=out.first_page,
        )
        return (
            context if out.codec is None else context.with_pieces(out.piece_size, np.array(out.piece_sizes, np.int64))
        )

    def _add_bloom(self) -> None:
        if self._bloom is None:
            return
        parts = [hashes for section in self._sections.values() for hashes in section.keys.hashes]
        if parts:
            self._bloom.add(np.concatenate(parts))
        self._out.append(self._bloom.bits.data)

    def _index(self, length: int, section: _Section) -> Bytes:
        slots, width = self._table_shape(length, section.keys.count, section.last_offset)
        if slots > _MOST_SLOTS:
            raise InvalidInput(f"{section.keys.count} keys of one length are too many for one lookup file")
        return build_index(section.keys, slots, width)

    def _placed_at(self, start: int) -> PlacedValues | None:
        """The values, if they are all in their pages already: those of a file whose values begin at ``start``."""
        placed = [section.placed for section in self._sections.values()]
        return placed[0] if len(placed) == 1 and placed[0] is not None and placed[0].start == start else None

    def _copy_values(self) -> None:
        for _, section in sorted(self._sections.items()):
            for part in self._content(section):
                self._out.append(part)
        self._out.finish()

    def _content(self, section: _Section) -> Iterator[bytes | memoryview]:
        """The bytes of a data section, in pieces."""
        if section.placed is not None:
            yield from section.placed.content()
            return
        yield b"\x00"
        for part in section.data:
            if isinstance(part, memoryview):
                yield part
                continue
            start, length = part
            assert self._spilled is not None
            for at in range(start, start + length, _COPY):
                yield self._spilled.read(at, min(_COPY, start + length - at))


def _differs_from_previous(values: pa.BinaryArray, last: pa.BinaryArray | None) -> Mask:
    """Which values are not equal to the one before them; the first is compared with ``last``."""
    differs = np.ones(len(values), np.bool_)
    differs[1:] = to_numpy(pc.not_equal(values[1:], values[:-1]))
    differs[0] = last is None or values[0].as_py() != last[0].as_py()
    return differs
