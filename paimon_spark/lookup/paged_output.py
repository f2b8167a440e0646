"""Writes a hash file in pages, and its values before all that lies in front of them. Format: ``hash_layout``.

Filter and index come first in the file but are known last. Where all keys have one length, though, the number of rows
says how large they will be, and so in which page, and where in it, the values begin. Then values need not wait:
``PlacedValues`` puts them into their pages at once, in a temporary file that becomes the file::

    not compressed    a hole as long as filter and index, filled last | values
    compressed        the pages behind that in which values begin | the pages of filter and index, up to that one

If a file comes out otherwise than its writer was told, its values are read back from there and written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from paimon_spark.checksum import crc32
from paimon_spark.errors import CorruptFile
from paimon_spark.lookup import compression
from paimon_spark.lookup.compression import Codec
from paimon_spark.lookup.hash_layout import PAGE_PREFIX
from paimon_spark.lookup.local_file import NewFile
from paimon_spark.lookup.page_checksums import PAGE_SIZE


class PagedOutput:
    """Appends to the file in pages: cuts each into pieces, compresses them where a codec is given and counts a checksum
    of each. ``first_page`` is the number of the page with which the file begins."""

    def __init__(self, file: NewFile, codec: Codec | None, page_size: int) -> None:
        self.file = file
        self.codec = codec
        self.page_size = min(page_size, PAGE_SIZE) if codec is None else page_size
        cut = codec is not None and codec.chains and page_size % compression.PIECE_SIZE == 0
        self.piece_size = compression.PIECE_SIZE if cut else self.page_size
        self.piece_sizes: list[int] = []
        self.checksums: list[int] = []
        self.first_page = 0
        self.rest = bytearray()

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write the pages that are full now; what does not fill one waits in ``rest``."""
        at = 0
        view = memoryview(data)
        if self.rest:
            at = min(len(view), self.page_size - len(self.rest))
            self.rest += view[:at]
            if len(self.rest) == self.page_size:
                self.finish()
        stop = at + (len(view) - at) // self.page_size * self.page_size
        self._write(view[at:stop])
        self.rest += view[stop:]

    def finish(self) -> None:
        """Write what does not fill a page."""
        self._write(memoryview(bytes(self.rest)))
        self.rest = bytearray()

    def _write(self, pages: memoryview) -> None:
        size = self.page_size
        if self.codec is None:
            self.checksums += [crc32(pages[at : at + size]) for at in range(0, len(pages), size)]
            self.file.append(pages)
            return
        compress, cut = self.codec.compress, self.piece_size
        for at in range(0, len(pages), size):
            pieces = [compress(pages[i : i + cut]) for i in range(at, min(at + size, len(pages)), cut)]
            pieces[0] = sum(map(len, pieces)).to_bytes(PAGE_PREFIX, "big") + pieces[0]
            self.piece_sizes += map(len, pieces)
            self.checksums += map(crc32, pieces)
            self.file.append(b"".join(pieces))


class PlacedValues:
    """The only data section of a file, in the pages that it has if filter and index end at byte ``start``."""

    def __init__(self, path: str, start: int, codec: Codec | None, page_size: int) -> None:
        """No bytes yet, in a temporary file at ``path``.

        :raises StorageError: the file exists or cannot be made
        """
        self.start = start
        self._pages = PagedOutput(NewFile(path), codec, page_size)
        self._border = start + -start % self._pages.page_size
        # What lies in the page in which the values begin.
        self._first = bytearray()
        if codec is None:
            self._pages.file.seek(self._border)

    def append(self, data: bytes | memoryview) -> None:
        """Add the next bytes of the section; they must not change any more.

        :raises StorageError: the disk is full or fails
        """
        room = self._border - self.start - len(self._first)
        if room:
            self._first += data[:room]
        self._pages.append(memoryview(data)[room:])

    def prepare(self, out: PagedOutput) -> None:
        """Let ``out``, to which nothing was appended yet, take filter and index, ``start`` bytes in all.

        :raises StorageError: the disk is full or fails
        """
        self._pages.finish()
        out.file.become(self._pages.file)
        if out.codec is None:
            out.file.seek(0)
        elif self._pages.piece_sizes:
            out.first_page = self._border // out.page_size

    def complete(self, out: PagedOutput) -> None:
        """Put the section behind filter and index.

        Requires: ``prepare``, then ``start`` bytes.

        :raises StorageError: the disk is full or fails
        """
        out.append(self._first)
        out.finish()
        out.checksums += self._pages.checksums
        out.piece_sizes += self._pages.piece_sizes

    def content(self) -> Iterator[bytes | memoryview]:
        """All bytes that were appended, in parts.

        :raises CorruptFile: the temporary file does not hold what was written
        :raises StorageError: the disk fails
        """
        yield bytes(self._first)
        yield from self._pages.file.content(self._border) if self._pages.codec is None else self._unpacked()
        yield bytes(self._pages.rest)

    def _unpacked(self) -> Iterator[bytes]:
        pages = self._pages
        assert pages.codec is not None
        start, count = 0, pages.page_size // pages.piece_size
        for at in range(0, len(pages.piece_sizes), count):
            borders = [0, *accumulate(pages.piece_sizes[at : at + count])]
            page = pages.file.read(start, borders[-1])
            try:
                if [crc32(page[i:j]) for i, j in pairwise(borders)] != pages.checksums[at : at + count]:
                    raise ValueError("its checksum does not match")
                yield bytes(pages.codec.decompress(memoryview(page)[PAGE_PREFIX:], pages.page_size))
            except ValueError as problem:
                raise CorruptFile(pages.file.path, f"the page at byte {start}: {problem}") from problem
            start += len(page)

    def discard(self) -> None:
        """Delete the temporary file, if it is not the file itself by now."""
        self._pages.file.discard()
