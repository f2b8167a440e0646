"""The layout of a sort file, near to LevelDB's table format. Fixed-width numbers are little-endian.

::

    file          data block … | Bloom filter (optional) | index block | footer

    block         payload | uint8 compression (0 none, 1 zstd, 2 lz4, 3 lzo) | uint32 checksum
    checksum      CRC-32 (zlib's) of payload and compression byte
    payload       not compressed: content;  compressed: varint content length | compressed content (see ``compression``)
    content       entry … | tail
    entry         varint key length | key | varint value length | value
    tail          all entries of one size ("aligned"):  int32 entry size | 00
                  else:                                 int32 start of each entry | int32 entries | 01

    index block   a block with one entry for each data block
                  key: its last key;  value: varint offset | varint payload size
    footer        int64 filter offset | int32 filter size | int64 filter keys (three zeros: no filter)
                  | int64 index offset | int32 index payload size | int32 magic

Keys ascend, without repeats. A block is closed by the entry that makes content length + 5 (+ 4 for each entry if not
aligned) greater than the block size. It is stored compressed only where that saves more than an eighth. An empty
block is not aligned.

The filter and the footer have no checksum of their own; the sidecar holds one over everything from the filter on. So
that a value can be read alone, it also holds one of each 4 KB of the data blocks of a file without compression, and one
of each piece of compressed ones (``block_pieces``), and where these are short the keys of such blocks (``block_keys``).

Source: ``SortLookupStoreWriter``, ``BlockWriter``, ``BlockReader``, ``BlockTrailer``, ``BloomFilterHandle`` of Apache
Paimon.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import strings
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.block_keys import BlockKeys
from paimon_spark.lookup.block_pieces import BlockPieces
from paimon_spark.lookup.page_checksums import PAGE_SIZE
from paimon_spark.lookup.sidecar import Checksums, Sidecar
from paimon_spark.rows.byte_strings import (
    EMPTY,
    Bytes,
    Int32s,
    Int64s,
    read_varints,
    rows_at,
    strings_at,
    varints,
)

MAGIC = 1481571681
TAIL_SIZE = 5
ALIGNED, UNALIGNED = 0, 1
TRAILER = struct.Struct("<BI")
_FOOTER = struct.Struct("<qiqqii")
_NUMBER = struct.Struct("<i")


@dataclass(frozen=True)
class SortContext:
    """What is known of a sort file beside the file: its size and, for files made here, the order of its keys, a
    CRC-32 of everything behind the data blocks, the length of its longest data block, and, if nothing is compressed, a
    CRC-32 of each ``PAGE_SIZE`` bytes of the data blocks, or the pieces of compressed ones; and which keys lie beside
    it."""

    file_size: int
    order: str | None = None
    tail_checksum: int | None = None
    longest_block: int | None = None
    page_checksums: Checksums | None = None
    pieces: BlockPieces | None = None
    keys: BlockKeys | None = None

    def sidecar(self) -> Sidecar:
        """This context in its form beside the file."""
        header = {"kind": "sort", "file_size": self.file_size, "order": self.order, "longest_block": self.longest_block}
        numbers = [np.array([self.tail_checksum], np.uint32)]
        if self.pieces is not None:
            header |= {"piece_size": self.pieces.piece_size, "blocks": len(self.pieces.lengths)}
            numbers.append(self.pieces.numbers())
        elif self.page_checksums is not None:
            header["page_size"] = PAGE_SIZE
            numbers.append(self.page_checksums)
        if self.keys is not None:
            numbers.append(self.keys.numbers())
            header["key_numbers"] = len(numbers[-1])
        return Sidecar(header, np.concatenate(numbers))

    @staticmethod
    def from_sidecar(path: str, sidecar: Sidecar) -> SortContext:
        """The context that lay beside the file at ``path``.

        :raises CorruptFile: a field is missing
        """
        header = sidecar.header
        try:
            size, order, longest = header["file_size"], header["order"], header["longest_block"]
            listed = int(header.get("key_numbers", 0))
            tail, rest, numbers = np.split(sidecar.checksums, (1, len(sidecar.checksums) - listed))
            keys = BlockKeys.from_numbers(numbers) if listed else None
            if sidecar.attached != (0 if keys is None else int(keys.sizes.sum())):
                raise ValueError(f"there are {sidecar.attached} bytes of keys")
            pages = rest if header.get("page_size") == PAGE_SIZE else None
            cut = "piece_size" in header
            pieces = BlockPieces.from_numbers(int(header["piece_size"]), int(header["blocks"]), rest) if cut else None
            return SortContext(int(size), str(order), int(tail[0]), int(longest), pages, pieces, keys)
        except (KeyError, IndexError, TypeError, ValueError) as problem:
            raise CorruptFile(path, f"its context is incomplete: {problem!r}") from problem


@dataclass(frozen=True)
class Footer:
    """Where filter and index are; ``bloom_keys`` is 0 when there is no filter."""

    bloom_offset: int
    bloom_size: int
    bloom_keys: int
    index_offset: int
    index_size: int

    SIZE = _FOOTER.size

    @property
    def data_end(self) -> int:
        """Where the data blocks end."""
        return self.bloom_offset if self.bloom_keys else self.index_offset

    def encode(self) -> bytes:
        """Its 36 bytes."""
        return _FOOTER.pack(
            self.bloom_offset, self.bloom_size, self.bloom_keys, self.index_offset, self.index_size, MAGIC
        )

    @staticmethod
    def decode(path: str, data: bytes, file_size: int) -> Footer:
        """The footer in the last bytes of a file of ``file_size`` bytes.

        :raises CorruptFile: wrong magic, or filter and index do not lie between the data blocks and the footer
        """
        *fields, magic = _FOOTER.unpack(data)
        footer = Footer(*fields)
        index_end = footer.index_offset + footer.index_size + TRAILER.size
        ok = magic == MAGIC and footer.index_offset >= 0 and footer.index_size >= TAIL_SIZE
        ok = ok and index_end == file_size - Footer.SIZE
        if footer.bloom_size or footer.bloom_keys or footer.bloom_offset:
            ok = ok and footer.bloom_offset >= 0 and footer.bloom_size > 0 and footer.bloom_keys > 0
            ok = ok and footer.bloom_offset + footer.bloom_size == footer.index_offset
        if not ok:
            raise CorruptFile(path, "its footer is not that of a sort file")
        return footer


@dataclass(frozen=True)
class Entries:
    """The entries of blocks: keys as an Arrow array, values as places in ``content``; ``counts`` of each block."""

    content: Bytes
    keys: pa.BinaryArray
    value_starts: Int32s
    value_lengths: Int32s
    counts: Int64s


def block_tail(starts: Int64s, entry_size: int | None) -> bytes:
    """What follows a block's entries: where each starts, or their size if all have one."""
    if entry_size is not None:
        return _NUMBER.pack(entry_size) + bytes((ALIGNED,))
    return b"".join((starts.astype("<i4").tobytes(), _NUMBER.pack(len(starts)), bytes((UNALIGNED,))))


def decode_contents(path: str, offsets: Int64s, content: Bytes, begins: Int64s, stops: Int64s) -> Entries:
    """The entries of blocks, at ``offsets`` in the file, ascending in ``content`` from ``begins`` to ``stops``.

    :raises CorruptFile: the entries of a block do not fill it exactly
    """
    starts, counts, ends = _all_entry_starts(path, offsets, content, begins, stops)
    if not len(starts):
        return Entries(content, strings([], pa.binary()), starts.astype(np.int32), starts.astype(np.int32), counts)
    last = np.cumsum(counts) - 1
    limits = np.concatenate((starts[1:], ends[-1:]))
    limits[last[counts > 0]] = ends[counts > 0]
    key_lengths, key_starts = read_varints(content, starts)
    value_lengths, value_starts = read_varints(content, np.minimum(key_starts + key_lengths, limits))
    wrong = (key_lengths < 0) | (value_lengths < 0) | (value_starts + value_lengths != limits)
    if wrong.any():
        offset = int(offsets[np.searchsorted(last, int(wrong.argmax()))])
        raise CorruptFile(path, f"the entries of the block at byte {offset} do not fit its length")
    keys = strings_at(content, key_starts, key_lengths)
    return Entries(content, keys, value_starts.astype(np.int32), value_lengths.astype(np.int32), counts)


def _all_entry_starts(
    path: str, offsets: Int64s, content: Bytes, begins: Int64s, stops: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Where the entries of all blocks start, how many each has, and where its last one ends."""
    if bool((stops - begins >= TAIL_SIZE).all()):
        tails = rows_at(content, stops - TAIL_SIZE, TAIL_SIZE)
        sizes = np.ascontiguousarray(tails[:, :-1]).view("<i4").ravel().astype(np.int64)
        ends = stops - TAIL_SIZE
        rooms = ends - begins
        if bool(((tails[:, -1] == ALIGNED) & (sizes > 1)).all()) and not (rooms % sizes).any():
            counts = rooms // sizes
            firsts = np.cumsum(counts) - counts
            starts = np.repeat(begins - firsts * sizes, counts)
            starts += np.arange(len(starts)) * (sizes[0] if (sizes == sizes[0]).all() else np.repeat(sizes, counts))
            return starts, counts, ends
    found = []
    ends = np.empty(len(begins), np.int64)
    for number, (begin, stop) in enumerate(zip(begins.tolist(), stops.tolist(), strict=True)):
        own, end = _entry_starts(content[begin:stop])
        if own is None:
            raise CorruptFile(path, f"the block at byte {offsets[number]} has no valid tail")
        found.append(own + begin)
        ends[number] = begin + end
    return np.concatenate(found), np.array([len(own) for own in found], np.int64), ends


def _entry_starts(content: Bytes) -> tuple[Int64s | None, int]:
    """Where each entry starts and where the last one ends; None where the tail contradicts itself."""
    if content.size < TAIL_SIZE:
        return None, 0
    (number,) = _NUMBER.unpack(content[-TAIL_SIZE:-1].tobytes())
    if content[-1] == ALIGNED:
        end = content.size - TAIL_SIZE
        if number < 2 or end % number:
            return None, 0
        return np.arange(0, end, number, dtype=np.int64), end
    end = content.size - TAIL_SIZE - 4 * number
    if content[-1] != UNALIGNED or number < 0 or end < 0:
        return None, 0
    starts = content[end : end + 4 * number].view("<i4").astype(np.int64)
    steady = number == 0 or (int(starts[0]) == 0 and bool((np.diff(starts, append=end) > 0).all()))
    return (starts, end) if steady and (number or end == 0) else (None, 0)


def block_handles(path: str, index: Entries, end: int) -> tuple[Int64s, Int64s]:
    """Offset and payload size of each data block; all lie one after another before ``end``.

    :raises CorruptFile: they do not
    """
    places = index.value_starts.astype(np.int64)
    if not len(places):
        if end:
            raise CorruptFile(path, "its index is empty, but there are data blocks")
        return places, places
    offsets, at = read_varints(index.content, places, 9)
    sizes, at = read_varints(index.content, at)
    borders = np.concatenate((offsets, np.full(1, end)))
    if (
        int(offsets[0]) != 0
        or bool((at != places + index.value_lengths).any())
        or bool((np.diff(borders) != sizes + TRAILER.size).any())
        or bool((sizes < TAIL_SIZE).any())
    ):
        raise CorruptFile(path, "the blocks that its index names do not follow one another")
    return offsets, sizes


def index_values(offsets: Int64s, sizes: Int64s) -> pa.BinaryArray:
    """The values of index entries."""
    return pc.binary_join_element_wise(varints(offsets), varints(sizes), EMPTY)
