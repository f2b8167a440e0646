"""LocalFile: a lookup file on local disk, opened without following links; and the making of a new one.

A file is made with permissions 0600 and must not exist before; a link under its name is refused either way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from itertools import pairwise, repeat
from types import TracebackType

import numpy as np

from paimon_spark.errors import CorruptFile, NotFound, StorageError
from paimon_spark.rows.byte_strings import Bytes, Int64s

_COPY = 2**22
_MOST_PARTS = 512
_LEAST_PART = 2048
_MOST_WAITING = 2**20
_AT_ONCE = 2**18
_RESERVE_FROM, _RESERVE_MOST = 2**25, 2**26
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class LocalFile:
    """A file open for random reads. ``size`` is its length when it was opened. It may be closed and opened again."""

    def __init__(self, path: str) -> None:
        """Open the file.

        :raises NotFound: it does not exist
        :raises CorruptFile: the name is a link or not a regular file
        :raises StorageError: it cannot be opened
        """
        self.path = path
        self._lock = threading.Lock()
        self._descriptor, status = _open(path)
        self._closed = False
        self._identity = _identity(status)
        self.size = status.st_size

    def read(self, offset: int, length: int) -> bytes:
        """Exactly these bytes.

        :raises CorruptFile: they are outside the file
        :raises StorageError: the disk fails, or the file is closed
        """
        self._check(offset, length)
        try:
            data = os.pread(self._descriptor, length, offset)
            while len(data) < length:
                more = os.pread(self._descriptor, length - len(data), offset + len(data))
                if not more:
                    raise CorruptFile(self.path, f"it ends at {offset + len(data)} now, not at {self.size}")
                data += more
        except OSError as problem:
            raise StorageError(f"cannot read lookup file {self.path}: {problem}") from problem
        return data

    def read_into(self, offset: int, memory: memoryview) -> None:
        """Fill ``memory`` with the bytes at ``offset``; errors as for :meth:`read`."""
        self._check(offset, len(memory))
        filled = 0
        try:
            while filled < len(memory):
                count = os.preadv(self._descriptor, [memory[filled:]], offset + filled)
                if not count:
                    raise CorruptFile(self.path, f"it ends at {offset + filled} now, not at {self.size}")
                filled += count
        except OSError as problem:
            raise StorageError(f"cannot read lookup file {self.path}: {problem}") from problem

    def read_each(self, offsets: list[int], memories: list[memoryview]) -> None:
        """Fill each of ``memories`` with the bytes at its offset; errors as for :meth:`read`."""
        self._check(0, 0)
        try:
            counts = list(map(os.preadv, repeat(self._descriptor), zip(memories, strict=True), offsets))
        except OSError as problem:
            raise StorageError(f"cannot read lookup file {self.path}: {problem}") from problem
        if counts != list(map(len, memories)):
            for offset, memory in zip(offsets, memories, strict=True):
                self.read_into(offset, memory)

    def read_parts(self, offsets: Int64s, lengths: Int64s, memory: Bytes) -> list[memoryview]:
        """Fill ``memory`` with the parts of these lengths at these offsets, one after another; where each is.
        Neighbours are read at once. Errors as for :meth:`read`."""
        view, borders = memory.data, [0, *np.cumsum(lengths).tolist()]
        parts = [view[start:stop] for start, stop in pairwise(borders)]
        firsts = (np.flatnonzero(offsets[1:] != (offsets + lengths)[:-1]) + 1).tolist()
        if len(firsts) + 1 == len(parts):
            self.read_each(offsets.tolist(), parts)
            return parts
        cuts = [0, *firsts, len(parts)]
        spans = [view[borders[start] : borders[stop]] for start, stop in pairwise(cuts)]
        self.read_each(offsets[cuts[:-1]].tolist(), spans)
        return parts

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise CorruptFile(self.path, f"bytes {offset} to {offset + length} lie outside its {self.size} bytes")
        if self._closed:
            raise StorageError(f"lookup file {self.path} is closed")

    def is_deleted(self) -> bool:
        """Whether the file has no name any more (another process dropped it); it stays readable."""
        return os.fstat(self._descriptor).st_nlink == 0

    def reopen(self) -> bool:
        """Open the file again if it is closed; False if it is not there any more, or not as it was.

        :raises StorageError: it cannot be opened
        """
        with self._lock:
            if not self._closed:
                return True
            try:
                descriptor, status = _open(self.path)
            except (NotFound, CorruptFile):
                return False
            if _identity(status) != self._identity:
                os.close(descriptor)
                return False
            self._descriptor, self._closed = descriptor, False
            return True

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._descriptor)

    def __enter__(self) -> LocalFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: str) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file at ``path``, and its status."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    except FileNotFoundError:
        raise NotFound(f"lookup file {path} does not exist") from None
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.EMLINK):
            raise CorruptFile(path, "it is a link; lookup files are never links") from None
        raise StorageError(f"cannot open lookup file {path}: {problem}") from problem
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise CorruptFile(path, "it is not a regular file")
    return descriptor, status


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """What tells a file, as it is, from another that has its name later."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class NewFile:
    """A file being made: bytes are appended; whoever makes it deletes it after an error.

    What is appended is kept, not copied, until a megabyte is worth a write; it must not change meanwhile. Disk space of
    a file of more than 32 MiB is asked for ahead, as much as it has and 64 MiB at most: to find room for each block by
    itself is a third of the price of writing. What is not needed is given back. No call writes more than 256 KiB: for
    more Linux makes memory of two megabytes in one piece, which takes as long again, or many times, if there is none.
    """

    def __init__(self, path: str) -> None:
        """Create the file.

        :raises StorageError: the name exists, or the file cannot be made
        """
        self.path = path
        self.size = 0
        self._at = 0
        self._reserved = 0
        self._waiting: list[bytes | memoryview] = []
        self._waiting_bytes = 0
        self._closed = False
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
        except OSError as problem:
            raise StorageError(f"cannot make lookup file {path}: {problem}") from problem

    def append(self, data: bytes | memoryview) -> None:
        """Write behind what was written last.

        :raises StorageError: the disk is full or fails
        """
        if not len(data):
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._at += len(data)
        self.size = max(self.size, self._at)
        if self._waiting_bytes >= _MOST_WAITING or len(self._waiting) * _LEAST_PART >= _MOST_WAITING:
            self._write_out()

    def seek(self, offset: int) -> None:
        """Append from there on, over what is there; what is left out before reads as zeros.

        :raises StorageError: the disk is full or fails
        """
        self._write_out()
        self._at = offset
        try:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
        except OSError as problem:
            raise self._failed(problem) from problem

    def become(self, other: NewFile) -> None:
        """Be the file that ``other`` is, in place of the one made first; ``other`` is of no more use.

        :raises StorageError: the disk is full or fails
        """
        other._write_out()
        try:
            # Renaming over a file would make ext4 write out all of the new one first.
            os.unlink(self.path)
            os.rename(other.path, self.path)
            self._release()
        except OSError as problem:
            raise self._failed(problem) from problem
        self._descriptor, self._closed, other._closed = other._descriptor, False, True
        self._at, self.size, self._reserved = other._at, other.size, other._reserved

    def read(self, offset: int, length: int) -> bytes:
        """Bytes written before; appending goes on behind them."""
        self._write_out()
        try:
            return os.pread(self._descriptor, min(length, self.size - offset), offset)
        except OSError as problem:
            raise self._failed(problem) from problem

    def content(self, start: int) -> Iterator[bytes | memoryview]:
        """What was written and appended, from byte ``start`` on, in pieces. Nothing may be appended meanwhile.

        Requires: appending has come to the end of the file.

        :raises StorageError: the disk fails
        """
        stored = self.size - self._waiting_bytes
        try:
            for at in range(start, stored, _COPY):
                yield os.pread(self._descriptor, min(_COPY, stored - at), at)
        except OSError as problem:
            raise self._failed(problem) from problem
        yield from self._waiting

    def close(self) -> None:
        """Write out what is waiting and close.

        :raises StorageError: the disk is full or fails
        """
        self._write_out()
        try:
            if self._reserved > self.size and not self._closed:
                os.ftruncate(self._descriptor, self.size)
            self._release()
        except OSError as problem:
            raise self._failed(problem) from problem

    def _reserve(self) -> None:
        """Ask for disk space for what waits, and ahead."""
        begin = max(self._reserved, self._at - self._waiting_bytes)
        self._reserved = self._at + min(self._at, _RESERVE_MOST)
        if hasattr(os, "posix_fallocate"):
            # Whether there is room for what is written is for the write to say.
            with contextlib.suppress(OSError):
                os.posix_fallocate(self._descriptor, begin, self._reserved - begin)

    def _write_out(self) -> None:
        if self._at > max(self._reserved, _RESERVE_FROM):
            self._reserve()
        position = self._at - self._waiting_bytes
        parts = [memoryview(part) for part in self._waiting]
        self._waiting, self._waiting_bytes = [], 0
        first = 0
        while first < len(parts):
            room = _AT_ONCE - position % _AT_ONCE
            some: list[memoryview] = []
            while first < len(parts) and room and len(some) < _MOST_PARTS:
                part = parts[first]
                some.append(part[:room])
                parts[first] = part[len(some[-1]) :]
                room -= len(some[-1])
                first += not len(parts[first])
            position += sum(map(len, some))
            self._write(some)

    def _write(self, parts: list[memoryview]) -> None:
        first = 0
        try:
            while first < len(parts):
                written = os.writev(self._descriptor, parts[first:])
                while first < len(parts) and written >= len(parts[first]):
                    written -= len(parts[first])
                    first += 1
                if written:
                    parts[first] = parts[first][written:]
        except OSError as problem:
            raise self._failed(problem) from problem

    def _release(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def discard(self) -> None:
        """Close and delete the file, whatever state it is in."""
        self._waiting = []
        with contextlib.suppress(OSError):
            self._release()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _failed(self, problem: OSError) -> StorageError:
        full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the local disk is full; free space or lower lookup.cache-max-disk-size" if full else str(problem)
        return StorageError(f"cannot write lookup file {self.path}: {reason}")
