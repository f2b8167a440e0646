"""Builds a sort file: entries are laid out a batch at a time and cut into blocks. Format: ``sort_layout``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.arrays import strings, to_arrow
from paimon_spark.checksum import crc32
from paimon_spark.errors import InvalidInput
from paimon_spark.lookup.block_keys import KeyListing
from paimon_spark.lookup.bloom_filter import BloomFilter
from paimon_spark.lookup.compression import Codec
from paimon_spark.lookup.key_order import KeyOrder
from paimon_spark.lookup.key_search import search_keys
from paimon_spark.lookup.local_file import NewFile
from paimon_spark.lookup.page_checksums import PAGE_SIZE, PageChecksums
from paimon_spark.lookup.record_layout import fill_records, record_size, records
from paimon_spark.lookup.sealed_blocks import BlockSealer
from paimon_spark.lookup.sort_layout import (
    TAIL_SIZE,
    TRAILER,
    Footer,
    SortContext,
    block_tail,
    index_values,
)
from paimon_spark.lookup.store_writer import StoreWriter
from paimon_spark.rows.byte_strings import Int32s, Int64s, offsets_and_bytes
from paimon_spark.rows.murmur import hash_bytes_many

_PIECE = 2**21
_NO_STARTS = np.empty(0, np.int64)
_NOTHING = strings([], pa.binary())


class SortWriter(StoreWriter[SortContext]):
    """Writes one sort file; see :class:`paimon_spark.lookup.SortLookupStore` for the meaning of the arguments."""

    def __init__(
        self, path: str, rows: int, bloom_fpp: float | None, codec: Codec | None, block_size: int, order: KeyOrder
    ) -> None:
        super().__init__(path)
        self._bloom = None if bloom_fpp is None or rows <= 0 else BloomFilter.sized(rows, bloom_fpp)
        self._hashes: list[Int32s] = []
        self._sealer = BlockSealer(codec)
        self._block_size = block_size
        self._order = order
        self._last_key: pa.BinaryArray | None = None
        self._rest_keys = _NOTHING
        self._rest_values = _NOTHING
        self._index_keys = [_NOTHING]
        self._index_offsets = [np.empty(0, np.int64)]
        self._index_sizes = [np.empty(0, np.int64)]
        self._longest = 0
        self._pages = PageChecksums(PAGE_SIZE) if codec is None else None
        self._listing = KeyListing(path)
        self._file = NewFile(path)

    def _discard(self) -> None:
        self._file.discard()
        if self._listing.attachment is not None:
            self._listing.attachment.discard()

    def _attachment(self) -> NewFile | None:
        return self._listing.attachment

    def _add(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        self._check_order(keys)
        if self._bloom is not None:
            self._hashes.append(hash_bytes_many(keys))
        if keys.nbytes + values.nbytes <= _PIECE:
            self._put_piece(keys, values, True, None)
            return
        at, size = 0, record_size(keys, values)
        ends = offsets_and_bytes(keys)[0] + offsets_and_bytes(values)[0]
        piece = max(_PIECE, 4 * self._block_size) if size is None else int(ends[-1])
        while at < len(keys):
            # What waits is copied with what follows it: with no more than closes its block.
            most = self._block_size if len(self._rest_keys) else piece
            stop = max(at + 1, int(np.searchsorted(ends, ends[at] + most, side="right")) - 1)
            at += self._put_piece(keys[at:stop], values[at:stop], stop == len(keys), size)

    def _put_piece(self, keys: pa.BinaryArray, values: pa.BinaryArray, last: bool, size: int | None) -> int:
        """Write the blocks that these rows fill, behind those that wait; keep the rest of the ``last`` piece, or of one
        that fills no block. How many rows need not be put again. ``size`` is that of all their records, if known."""
        count, waiting = len(keys), len(self._rest_keys)
        if waiting:
            keys = pa.concat_arrays([self._rest_keys, keys])
            values = pa.concat_arrays([self._rest_values, values])
        if waiting or size is None:
            size = record_size(keys, values)
        done = self._write_full_blocks(keys, values) if size is None else self._write_alike(keys, values, size)
        if done and not last:
            self._rest_keys = self._rest_values = _NOTHING
            return done - waiting
        self._rest_keys, self._rest_values = _copy(keys[done:]), _copy(values[done:])
        return count

    def _check_order(self, keys: pa.BinaryArray) -> None:
        if self._last_key is not None:
            self._refuse_unsorted(pa.concat_arrays([self._last_key, keys[:1]]))
        self._refuse_unsorted(keys)
        self._last_key = _copy(keys[-1:])

    def _refuse_unsorted(self, keys: pa.BinaryArray) -> None:
        ordered = self._order.normalize(keys)
        bad = search_keys(ordered).first_unsorted()
        if bad is not None:
            before, key = keys[bad - 1].as_py()[:64].hex(), keys[bad].as_py()[:64].hex()
            raise InvalidInput(f"keys of a sort file must ascend without repeats, but {key} came after {before}")

    def _write_alike(self, keys: pa.BinaryArray, values: pa.BinaryArray, size: int) -> int:
        """Write the blocks that entries of one ``size`` fill; how many entries those have."""
        each = self._entries_of_a_block(size)
        count = len(keys) // each
        done, length = count * each, each * size + TAIL_SIZE
        if not count:
            return 0
        offset = self._file.size
        # As many at once as stay in the processor's cache from here to the write.
        rows = max(1, _PIECE // length) * each
        parts = [slice(at, min(at + rows, done)) for at in range(0, done, rows)]
        sizes = np.concatenate([self._write_blocks(keys[part], values[part], each, size) for part in parts])
        stored = np.cumsum(sizes + TRAILER.size)
        self._longest = max(self._longest, length)
        self._index_offsets.append(offset + stored - (sizes + TRAILER.size))
        self._index_sizes.append(sizes)
        self._index_keys.append(keys.take(to_arrow(np.arange(each - 1, done, each))))
        self._listing.add_alike(keys[:done], len(values[0].as_py()), self._sealer.paged(count), length)
        return done

    def _write_blocks(self, keys: pa.BinaryArray, values: pa.BinaryArray, each: int, size: int) -> Int64s:
        """Write blocks of ``each`` entries of one ``size``; the sizes of their payloads."""
        content = each * size
        blocks = np.empty((len(keys) // each, content + TAIL_SIZE + TRAILER.size), np.uint8)
        entries = np.ndarray((len(blocks), each, size), np.uint8, blocks, 0, (blocks.shape[1], size, 1))
        fill_records(entries, keys, values)
        blocks[:, content : content + TAIL_SIZE] = np.frombuffer(block_tail(_NO_STARTS, size), np.uint8)
        sealed, sizes = self._sealer.many(self._file.size, blocks, each)
        self._write(sealed)
        return sizes

    def _entries_of_a_block(self, size: int) -> int:
        """How many entries of one ``size`` close a block."""
        return max(1, (self._block_size - TAIL_SIZE) // size + 1)

    def _write_full_blocks(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> int:
        """Write the blocks that these entries fill; how many entries those have."""
        starts, data = offsets_and_bytes(records(keys, values))
        sizes = np.diff(starts)
        changes = np.flatnonzero(np.diff(sizes)) + 1
        # What a block that is not aligned weighs: content up to an entry's end, and 4 bytes an entry.
        weights = starts + 4 * np.arange(len(starts))
        view = data.data
        at = 0
        while at < len(sizes):
            entry = int(sizes[at])
            turn = int(np.searchsorted(changes, at, side="right"))
            same_until = int(changes[turn]) if turn < len(changes) else len(sizes)
            stop = at + self._entries_of_a_block(entry)
            aligned = stop <= same_until
            if not aligned:
                limit = int(weights[at]) + self._block_size - TAIL_SIZE
                stop = max(int(np.searchsorted(weights, limit, side="right")), same_until + 1)
            if stop > len(sizes):
                break
            places = starts[at:stop] - starts[at]
            tail = block_tail(places, entry if aligned else None)
            self._write_block(keys[at:stop], values[at:stop], view[starts[at] : starts[stop]], tail)
            at = stop
        return at

    def _write_block(self, keys: pa.BinaryArray, values: pa.BinaryArray, entries: memoryview, tail: bytes) -> None:
        """Write a data block of these ``entries``, and keep its place for the index."""
        offset, content = self._file.size, len(entries) + len(tail)
        parts, size = self._sealer.one(offset, entries, tail, len(keys))
        self._append(parts, content)
        if self._sealer.paged(1)[0]:
            self._listing.add(keys, values, content)
        else:
            self._listing.skip()
        self._index_offsets.append(np.array([offset]))
        self._index_sizes.append(np.array([size]))
        self._index_keys.append(_copy(keys[-1:]))

    def _append(self, parts: list[bytes | memoryview], length: int) -> None:
        """Write a block with a content of ``length`` bytes."""
        self._longest = max(self._longest, length)
        for part in parts:
            self._write(part)

    def _write(self, data: bytes | memoryview) -> None:
        self._file.append(data)
        if self._pages is not None:
            self._pages.add(data)

    def _finish(self) -> SortContext:
        if len(self._rest_keys):
            rest = records(self._rest_keys, self._rest_values)
            self._write_block(self._rest_keys, self._rest_values, *_whole_block(rest))
        tail_start = self._file.size
        pages, self._pages = None if self._pages is None else self._pages.finish(), None
        longest, bloom = self._longest, (0, 0, 0)
        if self._bloom is not None:
            if self._hashes:
                self._bloom.add(np.concatenate(self._hashes))
            bloom = (tail_start, self._bloom.bits.size, self._bloom.keys)
            self._file.append(self._bloom.bits.data)
        index_offset = self._file.size
        values = index_values(np.concatenate(self._index_offsets), np.concatenate(self._index_sizes))
        content = _whole_block(records(pa.concat_arrays(self._index_keys), values))
        parts, index_size = self._sealer.whole(*content)
        self._append(parts, sum(map(len, content)))
        self._file.append(Footer(*bloom, index_offset, index_size).encode())
        tail = self._file.read(tail_start, self._file.size - tail_start)
        self._file.close()
        pieces, listed = self._sealer.pieces(), self._listing.finish()
        return SortContext(self._file.size, self._order.name, crc32(tail), longest, pages, pieces, listed)


def _whole_block(entries: pa.BinaryArray) -> tuple[memoryview, bytes]:
    """The entries and the tail of a block that holds all ``entries``."""
    starts, data = offsets_and_bytes(entries)
    sizes = np.diff(starts)
    aligned = len(sizes) > 0 and bool((sizes == sizes[0]).all())
    view = data[int(starts[0]) : int(starts[-1])].data
    return view, block_tail(starts[:-1] - starts[0], int(sizes[0]) if aligned else None)


def _copy(some: pa.BinaryArray) -> pa.BinaryArray:
    """The same strings, no longer holding on to the batch that they were cut from."""
    return pa.concat_arrays([some, _NOTHING]) if len(some) else _NOTHING
