"""The sidecar of a lookup file: what a reader must know, and checksums of what the file itself leaves unprotected.

Java keeps the context of a hash file in memory only, and neither hash files nor the Bloom filter and footer of sort
files have checksums. The sidecar lies beside the file, named ``<file>.context``; Java never looks at it.
Little-endian::

    sidecar    attachment | body | uint32 body length
    body       "PLC1" | uint32 header length | header: JSON | uint32 count | uint32 checksum of each part
               | uint32 CRC-32 of all of the body before

The header's ``kind`` is ``hash`` or ``sort``; the rest belongs to that kind (``HashContext``, ``SortContext``), as does
the meaning of *part*, and what may follow the checksums. The body is written after the file is complete, so a file with
a valid sidecar is complete. The *attachment*, mostly empty, may be large: it is read in parts, each of which has its
checksum in the body (``block_keys``).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup.local_file import LocalFile, NewFile

_MAGIC = b"PLC1"
_LENGTH = struct.Struct("<I")
_LONGEST = 2**28
Checksums = npt.NDArray[np.uint32]


def sidecar_path(path: str) -> str:
    """Where the sidecar of the lookup file at ``path`` is."""
    return path + ".context"


@dataclass(frozen=True)
class Sidecar:
    """A sidecar's content; ``attached`` is the size of the attachment."""

    header: dict[str, Any]
    checksums: Checksums
    attached: int = 0

    def write(self, path: str, attachment: NewFile | None = None) -> None:
        """Put it beside the lookup file at ``path``; ``attachment`` is that file already, with what comes first. It is
        deleted after an error.

        :raises StorageError: the disk is full, or the file cannot be made
        """
        header = json.dumps(self.header, separators=(",", ":")).encode()
        parts = _LENGTH.pack(len(self.checksums)) + self.checksums.astype("<u4").tobytes()
        body = _MAGIC + _LENGTH.pack(len(header)) + header + parts
        body += _LENGTH.pack(crc32(body))
        file = NewFile(sidecar_path(path)) if attachment is None else attachment
        try:
            file.append(body + _LENGTH.pack(len(body)))
            file.close()
        except BaseException:
            file.discard()
            raise

    @staticmethod
    def read(path: str, kind: str) -> Sidecar:
        """The sidecar of the lookup file at ``path``.

        :raises NotFound: there is none
        :raises CorruptFile: damaged, or of another kind of file
        """
        own = sidecar_path(path)
        with LocalFile(own) as file:
            end = file.size - _LENGTH.size
            (length,) = _LENGTH.unpack(file.read(end, _LENGTH.size)) if end >= 0 else (0,)
            if length > min(end, _LONGEST):
                raise CorruptFile(own, f"{length} bytes are too many for a context")
            data = file.read(end - length, length) if length else b""
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
        return Sidecar(header, checksums, end - len(data))
