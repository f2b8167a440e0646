"""LookupFileCache: the lookup files that this process uses, bounded in bytes on disk and in time unused.

All buckets of a process share one. Evicting a file deletes it from the node's directory at once. A file that is greater
than the bound still answers the batch that asked for it, and is evicted right after. The bound is also that of the
directory: whoever builds or opens a file lists it, measures files that it has not seen, and drops those of other
processes that are too many, or that nobody used for long, which is looked for once in a sixtieth of that time. A
process reads on in a file that another has dropped until the batch is answered, and its bytes are free then.

However many files there are, a process holds descriptors only of those that are asked just now: one file for each
thread that looks up, with one descriptor, or two if keys are listed beside it. Between batches a file is closed, and
what is in memory of it stays. To open it again takes some four microseconds a descriptor, and succeeds only if it is
the same file as before, with the same size and time of its last change; what is read from it is checked as ever.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile, NotFound, StorageError
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.lookup_directory import AGE, DAMAGED, EXPLICIT, LOG, SIZE, LookupDirectory
from paimon_spark.lookup.lookup_file import LookupFile
from paimon_spark.lookup.lookup_options import (
    CACHE_FILE_RETENTION,
    CACHE_HIGH_PRIORITY_RATIO,
    CACHE_MAX_DISK_SIZE,
    CACHE_MAX_MEMORY_SIZE,
)
from paimon_spark.lookup.store_reader import StoreReader
from paimon_spark.options import Options

_OPENINGS, _REBUILDS = 100, 5
_SWEEPS = 60


@dataclass(frozen=True)
class LookupSource:
    """How to get one lookup file: its name on this node, the data file's path, and how to build and to open it."""

    name: str
    data_file: str
    build: Callable[[str], None]
    open: Callable[[str, LookupMemory], StoreReader]


class LookupFileCache:
    """Lookup files by name, least recently used first. Safe to share between threads."""

    def __init__(
        self,
        directory: LookupDirectory,
        memory: LookupMemory,
        max_bytes: int | None = None,
        retention_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A cache of files in ``directory`` of at most ``max_bytes`` in all (None: no bound), each dropped when it
        was not used for ``retention_seconds`` of ``clock``."""
        self.directory = directory
        self.memory = memory
        self._max_bytes = max_bytes
        self._retention = retention_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._next_sweep = clock()
        self._files: OrderedDict[str, tuple[LookupFile, float]] = OrderedDict()

    @property
    def names(self) -> list[str]:
        """The files that this process uses, least recently used first."""
        with self._lock:
            return list(self._files)

    @contextlib.contextmanager
    def use(self, source: LookupSource) -> Iterator[LookupFile]:
        """The file of ``source``, built if no process of this node has built it; it stays open inside the block."""
        file = self._pinned(source)
        try:
            yield file
        finally:
            file.unpin()
            self._evict()

    def drop(self, name: str, reason: str = EXPLICIT) -> None:
        """Delete a file, used here or not, and say why."""
        with self._lock:
            known = self._files.pop(name, None)
        if known is not None:
            known[0].drop(reason)
        elif self.directory.drop(name):
            LOG.info("lookup file %s left (%s): it was not used in this process", name, reason)

    def release(self, name: str) -> None:
        """Let go of a file and leave it to the node's other processes."""
        with self._lock:
            known = self._files.pop(name, None)
        if known is not None:
            known[0].close()

    def close(self) -> None:
        """Delete all files that this cache has."""
        for name in self.names:
            self.drop(name)

    def _pinned(self, source: LookupSource) -> LookupFile:
        for attempt in range(_OPENINGS):
            with self._lock:
                known = self._files.get(source.name)
                if known is not None and self.directory.touch(source.name) and known[0].pin():
                    self._files[source.name] = (known[0], self._clock())
                    self._files.move_to_end(source.name)
                    return known[0]
                if known is not None:
                    self._files.pop(source.name)
                    known[0].close()
            file = self._open(source, last=attempt + 1 >= _REBUILDS)
            if file is not None:
                return file
        raise StorageError(
            f"lookup file {source.name} is dropped whenever it is built; raise {CACHE_MAX_DISK_SIZE.key}"
        )

    def _open(self, source: LookupSource, last: bool) -> LookupFile | None:
        """The file, built if need be, pinned and known to the cache; None when it has to be tried again. If it is
        damaged, that is an error the ``last`` time."""
        path = self.directory.obtain(source.name, source.build)
        self._sweep(spare=source.name)
        try:
            reader = source.open(path, self.memory)
        except NotFound:
            # Somebody had to drop it already.
            return None
        except CorruptFile as problem:
            if last:
                raise
            LOG.warning("lookup file %s is built again: %s", source.name, problem)
            self.drop(source.name, DAMAGED)
            return None
        file = LookupFile(source.name, source.data_file, reader, self.directory)
        with self._lock:
            if source.name in self._files or not file.pin():
                reader.close()
                return None
            self._files[source.name] = (file, self._clock())
        self._evict(spare=source.name)
        return file

    def _sweep(self, spare: str) -> None:
        """Drop the files of the directory, whosoever, that are too many or too old. When each was used is not asked
        each time: of many files that would be most of the work of opening them."""
        if self._clock() < self._next_sweep and (self._max_bytes is None or self.directory.size() <= self._max_bytes):
            return
        self._next_sweep = self._clock() + self._retention / _SWEEPS
        for name, reason in self.directory.excess(self._max_bytes, self._retention, spare).items():
            self.drop(name, reason)

    def _evict(self, spare: str | None = None) -> None:
        with self._lock:
            expired = self._clock() - self._retention
            excess = 0
            if self._max_bytes is not None:
                excess = sum(file.size for file, _ in self._files.values()) - self._max_bytes
            leaving = {}
            for name, (file, used) in self._files.items():
                if used >= expired and excess <= 0:
                    break
                if name != spare:
                    leaving[name] = AGE if used < expired else SIZE
                    excess -= file.size
            files = [(self._files.pop(name)[0], reason) for name, reason in leaving.items()]
        for file, reason in files:
            file.drop(reason)


_process_caches: dict[tuple[object, ...], LookupFileCache] = {}
_process_lock = threading.Lock()


def process_cache(options: Options, parent: str | None = None) -> LookupFileCache:
    """This process's cache for the ``lookup.*`` options given, in the node's directory inside ``parent``.

    :raises InvalidOption: an option's value is not allowed
    :raises StorageError: the directory cannot be made or is not private
    """
    settings = (
        options.get_option(CACHE_MAX_MEMORY_SIZE),
        options.get_option(CACHE_HIGH_PRIORITY_RATIO),
        options.get_option(CACHE_MAX_DISK_SIZE),
        options.get_option(CACHE_FILE_RETENTION),
    )
    key = (parent, *settings)
    with _process_lock:
        cache = _process_caches.get(key)
        if cache is None:
            memory = LookupMemory(settings[0], settings[1])
            cache = LookupFileCache(LookupDirectory(parent), memory, settings[2], settings[3] / 1000)
            _process_caches[key] = cache
        return cache
