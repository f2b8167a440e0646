"""The layout of a hash file, and the context that its reader needs.

Keys are grouped by their length in bytes. For each length that occurs there is an *index section*, a table of slots
with linear probing, and a *data section*::

    [Bloom filter] | index section … | data section …            lengths ascending

    index section   slots × slot
    slot            key | varint offset, zero padded       offset 0: the slot is empty
    data section    00 | (varint value length | value) …   offsets count from the start of the section

A key with Murmur hash h has its home in slot ``(h & 0x7fffffff) mod slots`` and lies in the first slot from there,
cyclic, that was empty when it came; ``slots = round(keys / load factor)``. A slot is as wide as the key and the
longest offset of its section. A value equal to the value put before it (of the same key length) is stored once.

The whole file may be cut into pages, each compressed on its own; without compression a page is what a checksum is of::

    page    int32 big-endian compressed length | compressed bytes (see ``compression``)

The compressed bytes of a page may be *pieces*, one after another, each of so many bytes compressed on their own. To
Java, and to whoever does not know of them, they are one page. The length before a page belongs to its first piece.

Compressed pages may begin with another than the first: those before it follow the last one. So a large file is written
whose values are known before its index is. Java asks the context where a page is, and does not mind.

Nothing in the file says where the sections are: that is the context. All positions in it count uncompressed bytes;
``page_starts`` are positions in the file itself.

Source: ``HashLookupStoreWriter``, ``HashLookupStoreReader``, ``HashContext`` of Apache Paimon (up to 1.3), after PalDB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.sidecar import Checksums, Sidecar
from paimon_spark.rows.byte_strings import Int64s

PAGE_PREFIX = 4
"""Bytes of the length before a compressed page."""
_BESIDE_HEADER = ("checksums", "page_starts", "piece_sizes")


@dataclass(frozen=True)
class HashContext:
    """Where everything is in a hash file. The tuples of the middle block have one entry a key length, from 0 on.

    ``bloom_keys`` is 0 when there is no filter. ``length`` is the uncompressed size. ``page_starts`` is None when the
    file is not compressed. ``checksums`` holds a CRC-32 of each page as it is in the file, of each piece where
    ``piece_size`` is given; ``piece_sizes`` are their sizes in the file, which begins with page ``first_page``. Files
    made by Java have none of these.
    """

    bloom_keys: int
    bloom_bytes: int
    key_counts: tuple[int, ...]
    slot_sizes: tuple[int, ...]
    slots: tuple[int, ...]
    index_offsets: tuple[int, ...]
    data_offsets: tuple[int, ...]
    length: int
    page_size: int
    compression: str = "none"
    page_starts: tuple[int, ...] | None = None
    file_size: int | None = None
    checksums: Checksums | None = None
    piece_size: int | None = None
    piece_sizes: Int64s | None = None
    first_page: int = 0

    def sidecar(self) -> Sidecar:
        """This context in its form beside the file: where there are pieces, the size of each in the file follows the
        checksums and stands for all starts."""
        header = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in _BESIDE_HEADER}
        parts = np.empty(0, np.uint32) if self.checksums is None else self.checksums
        if self.piece_sizes is None:
            header["page_starts"] = None if self.page_starts is None else list(self.page_starts)
        else:
            parts = np.concatenate((parts, self.piece_sizes.astype(np.uint32)))
        return Sidecar({"kind": "hash", **header}, parts)

    @staticmethod
    def from_sidecar(path: str, sidecar: Sidecar) -> HashContext:
        """The context that lay beside the file at ``path``.

        :raises CorruptFile: a field is missing, or there are not as many checksums as pieces
        """
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in sidecar.header.items()
            if name != "kind"
        }
        try:
            piece_size = fields.pop("piece_size", None)
            if piece_size is None:
                return HashContext(**fields, checksums=sidecar.checksums)
            checksums, sizes = np.split(sidecar.checksums, 2)
            return HashContext(**fields, checksums=checksums).with_pieces(piece_size, sizes.astype(np.int64))
        except (TypeError, ValueError, ZeroDivisionError) as problem:
            raise CorruptFile(path, f"its context is incomplete: {problem}") from problem

    def with_pieces(self, piece_size: int, sizes: Int64s) -> HashContext:
        """This context for a compressed file of pieces of ``piece_size`` bytes, of these sizes in the file.

        :raises ValueError: no such pieces make up a page
        """
        context = replace(self, piece_size=piece_size, piece_sizes=sizes)
        pages = context.piece_starts()[:: self.page_size // piece_size]
        return replace(context, page_starts=tuple(pages.tolist()))

    def piece_starts(self) -> Int64s:
        """Where in the file each piece is. Requires: pieces."""
        assert self.piece_size is not None
        assert self.piece_sizes is not None
        first = self.first_page * (self.page_size // self.piece_size)
        stored = np.roll(self.piece_sizes, -first)
        starts: Int64s = np.roll(np.cumsum(stored) - stored, first)
        return starts

    def check(self, path: str) -> None:
        """Refuse a context whose sections do not follow one another within ``length``.

        :raises CorruptFile: they do not
        """
        lists = (self.slot_sizes, self.slots, self.index_offsets, self.data_offsets)
        ok = all(len(entries) == len(self.key_counts) for entries in lists)
        at = self.bloom_bytes
        piece = self.page_size if self.piece_size is None else self.piece_size
        ok = ok and at >= 0 and 0 < piece <= self.page_size and self.page_size % piece == 0
        for length, count in enumerate(self.key_counts if ok else ()):
            if count:
                ok = ok and self.index_offsets[length] == at and 0 < count <= self.slots[length]
                ok = ok and self.slot_sizes[length] > length
                at += self.slots[length] * self.slot_sizes[length]
        for length, count in enumerate(self.key_counts if ok else ()):
            if count:
                ok = ok and at <= self.data_offsets[length] < self.length
                at = self.data_offsets[length] + 1
        if not ok or (not any(self.key_counts) and self.length != self.bloom_bytes):
            raise CorruptFile(path, "the sections that its context names do not fit the file")
