"""LookupFile: one data file's local lookup file, known to this process and open while it is used."""

from __future__ import annotations

import threading

import pyarrow as pa

from paimon_spark.lookup.lookup_directory import CLOSED, LOG, LookupDirectory
from paimon_spark.lookup.store_reader import StoreReader


class LookupFile:
    """A reader, the data file it speaks for, and how often it was asked and knew the answer.

    It is used between ``pin`` and ``unpin``, and only then are descriptors held for it. ``drop`` deletes the file from
    disk at once and closes the reader as soon as nobody uses it; from then on it cannot be pinned. Safe to share
    between threads.
    """

    def __init__(self, name: str, data_file: str, reader: StoreReader, directory: LookupDirectory) -> None:
        """The file ``name`` of ``directory``, opened as ``reader``; ``data_file`` is the path it was built from."""
        self.name = name
        self.data_file = data_file
        self.size = reader.size
        self.asked = 0
        self.hits = 0
        self._reader = reader
        self._directory = directory
        self._lock = threading.Lock()
        self._pins = 0
        self._dropped = False

    def get_many(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each key, null where absent.

        Requires: pinned.
        """
        values = self._reader.get_many(keys)
        with self._lock:
            self.asked += len(keys)
            self.hits += len(keys) - values.null_count
        return values

    def pin(self) -> bool:
        """Keep the file open until ``unpin``; False if it was dropped, by this process or another.

        :raises StorageError: it cannot be opened
        """
        with self._lock:
            if self._dropped:
                return False
            there = not self._reader.is_deleted() if self._pins else self._reader.resume()
            self._pins += there
            return there

    def unpin(self) -> None:
        """The counterpart of a ``pin`` that succeeded."""
        with self._lock:
            self._pins -= 1
            if not self._pins and not self._dropped:
                self._reader.suspend()
            last = self._dropped and not self._pins
        if last:
            self._reader.close()

    def drop(self, reason: str) -> None:
        """Delete the file and say why (a second call does nothing)."""
        if not self._leave(reason):
            return
        self._directory.drop(self.name)

    def close(self) -> None:
        """Close the reader and leave the file to the node's other processes (a second call does nothing)."""
        self._leave(CLOSED)

    def _leave(self, reason: str) -> bool:
        with self._lock:
            if self._dropped:
                return False
            self._dropped = True
            idle = not self._pins
        if idle:
            self._reader.close()
        LOG.info(
            "lookup file %s of %s left (%s): %d bytes, %d of %d lookups found",
            self.name,
            self.data_file,
            reason,
            self.size,
            self.hits,
            self.asked,
        )
        return True
