"""The keys of a sort file's data blocks beside the file, so that none need be read whole for them.

Where values are read by pages (``value_pages``) a lookup needs little of a block but its keys. Where these are short, a
sixteenth of the content at most, the writer lists them in the sidecar's attachment, one part for each block. Numbers
have 32 bits, little-endian::

    part    keys                                                  if all keys have one length, and all values
            length of each key | length of each value | keys      else

Behind the numbers of pages or pieces the sidecar's body has::

    for each block     its entries, 0 if its keys are not listed
    for each block     the length of its keys, 2³² - 1 if lengths differ
    for each block     the length of its values, 2³² - 1 if lengths differ
    for each block     the size of its part
    for each block     CRC-32 of its part
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_spark.checksum import crc32
from paimon_spark.lookup.local_file import NewFile
from paimon_spark.lookup.sidecar import Checksums, sidecar_path
from paimon_spark.rows.byte_strings import Int64s, Mask, offsets_and_bytes

DIFFER = 2**32 - 1
_GREATEST_SHARE = 16


@dataclass(frozen=True)
class BlockKeys:
    """What the body of the sidecar says of the parts, a number for each block."""

    entries: Int64s
    key_lengths: Int64s
    value_lengths: Int64s
    sizes: Int64s
    checksums: Checksums

    def numbers(self) -> Checksums:
        """Their form in the sidecar."""
        columns = (self.entries, self.key_lengths, self.value_lengths, self.sizes)
        return np.concatenate([*(column.astype(np.uint32) for column in columns), self.checksums])

    @staticmethod
    def from_numbers(numbers: Checksums) -> BlockKeys:
        """The parts that the sidecar has as ``numbers``.

        :raises ValueError: not as many for each
        """
        entries, keys, values, sizes = numbers.astype(np.int64).reshape(5, -1)[:-1]
        return BlockKeys(entries, keys, values, sizes, numbers[4 * len(entries) :])


class KeyListing:
    """Lists the keys of blocks in the sidecar of a sort file that is written."""

    def __init__(self, path: str) -> None:
        """The listing of the file at ``path``."""
        self._path = path
        # For each block: entries, lengths of keys and of values, size and checksum of the part.
        self._rows = [np.empty((0, 5), np.int64)]
        self.attachment: NewFile | None = None
        """The sidecar to be, with the parts in it; None before the first part."""

    def add(self, keys: pa.BinaryArray, values: pa.BinaryArray, content: int) -> None:
        """List the keys of the next block, which has these entries and a content of that length, if they are short."""
        ends, data = offsets_and_bytes(keys)
        lengths, value_lengths = np.diff(ends), np.diff(offsets_and_bytes(values)[0])
        part = data[int(ends[0]) : int(ends[-1])].tobytes()
        key_length, value_length = int(lengths[0]), int(value_lengths[0])
        if (lengths != key_length).any() or (value_lengths != value_length).any():
            key_length = value_length = DIFFER
            part = np.concatenate((lengths, value_lengths)).astype("<u4").tobytes() + part
        if _is_short(len(part), content):
            self._append(part)
            self._rows.append(np.array([[len(keys), key_length, value_length, len(part), crc32(part)]]))
        else:
            self.skip()

    def add_alike(self, keys: pa.BinaryArray, value_length: int, listed: Mask, content: int) -> None:
        """List the keys of those of the next blocks that are to be ``listed``. All have as many of these entries, all
        keys have one length, all values that of ``value_length``, and all contents that of ``content``."""
        blocks = len(listed)
        each, rows = len(keys) // blocks, np.zeros((blocks, 5), np.int64)
        ends, data = offsets_and_bytes(keys[:each])
        size = int(ends[-1] - ends[0])
        if listed.any() and _is_short(size, content):
            begin = int(ends[0])
            parts = data[begin : begin + blocks * size].reshape(blocks, size)[listed]
            self._append(parts.reshape(-1).data)
            rows[listed, :4] = each, size // each, value_length, size
            rows[listed, 4] = list(map(crc32, parts))
        self._rows.append(rows)

    def skip(self) -> None:
        """Do not list the keys of the next block."""
        self._rows.append(np.zeros((1, 5), np.int64))

    def finish(self) -> BlockKeys | None:
        """What to say of the parts, if there are any."""
        if self.attachment is None:
            return None
        entries, keys, values, sizes, checksums = np.concatenate(self._rows).T
        return BlockKeys(entries, keys, values, sizes, checksums.astype(np.uint32))

    def _append(self, parts: bytes | memoryview) -> None:
        if self.attachment is None:
            self.attachment = NewFile(sidecar_path(self._path))
        self.attachment.append(parts)


def _is_short(size: int, content: int) -> bool:
    """Whether a part of that size is short against a content of that length, and is something."""
    return 0 < _GREATEST_SHARE * size <= content
