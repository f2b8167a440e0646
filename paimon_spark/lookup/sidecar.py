"""The sidecar of a lookup file: what a reader must know, and checksums of what the file itself leaves unprotected.

Java keeps the context of a hash file in memory only, and neither hash files nor the Bloom filter and footer of sort
files have checksums. The sidecar lies beside the file, named ``<file>.context``; Java never looks at it.
Little-endian::

    "PLC1" | uint32 header length | header: JSON | uint32 count | uint32 checksum of each part | uint32 CRC-32 of all
    before

The header's ``kind`` is ``hash`` or ``sort``; the rest belongs to that kind (``HashContext``, ``SortContext``), as does
the meaning of *part*, and what may follow the checksums. It is written after the file is complete, so a file with a
valid sidecar is complete.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.local_file import LocalFile, write_new_file

_MAGIC = b"PLC1"
_LENGTH = struct.Struct("<I")
_LONGEST = 2**28
Checksums = npt.NDArray[np.uint32]


def sidecar_path(path: str) -> str:
    """Where the sidecar of the lookup file at ``path`` is."""
    return path + ".context"


@dataclass(frozen=True)
class Sidecar:
    """A sidecar's content."""

    header: dict[str, Any]
    checksums: Checksums

    def write(self, path: str) -> None:
        """Put it beside the lookup file at ``path``.

        :raises StorageError: the disk is full, or the file cannot be made
        """
        header = json.dumps(self.header, separators=(",", ":")).encode()
        parts = _LENGTH.pack(len(self.checksums)) + self.checksums.astype("<u4").tobytes()
        body = _MAGIC + _LENGTH.pack(len(header)) + header + parts
        write_new_file(sidecar_path(path), body + _LENGTH.pack(crc32(body)))

    @staticmethod
    def read(path: str, kind: str) -> Sidecar:
        """The sidecar of the lookup file at ``path``.

        :raises NotFound: there is none
        :raises CorruptFile: damaged, or of another kind of file
        """
        own = sidecar_path(path)
        with LocalFile(own) as file:
            if file.size > _LONGEST:
                raise CorruptFile(own, f"{file.size} bytes are too many for a context")
            data = file.read(0, file.size)
        if len(data) < 12 or data[:4] != _MAGIC or crc32(data[:-4]) != _LENGTH.unpack(data[-4:])[0]:
            raise CorruptFile(own, "it is cut short or its checksum does not match")
        try:
            (length,) = _LENGTH.unpack_from(data, 4)
            header = json.loads(data[8 : 8 + length])
            (count,) = _LENGTH.unpack_from(data, 8 + length)
            checksums = np.frombuffer(data, np.uint32, count, 12 + length)
        except (ValueError, struct.error) as problem:
            raise CorruptFile(own, f"not a lookup context: {problem}") from problem
        if header.get("kind") != kind:
            raise CorruptFile(own, f"it describes a {header.get('kind')} file, not a {kind} file")
        return Sidecar(header, checksums)


def delete_lookup_file(path: str) -> None:
    """Delete a lookup file and its sidecar; the sidecar first, so that what is left is never trusted."""
    for name in (sidecar_path(path), path):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue
