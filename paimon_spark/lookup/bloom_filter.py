"""The Bloom filter of lookup files.

The filter is a row of bits, the lowest bit of a byte first, without any header. A key sets (and asks for) k bits::

    h1 = murmur(key)    h2 = h1 >>> 16
    c(i) = h1 + i * h2, 32 bits, complemented when negative       i = 1 … k
    bit(i) = c(i) mod (number of bits)

For n keys and a wanted rate p of false positives the filter has ``int(-n ln p / (ln 2)²)`` bits, rounded up to whole
bytes, and ``k = max(1, round(bits / n * ln 2))``.

Source: ``BloomFilter``, ``BitSet`` of Apache Paimon.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from paimon_spark.rows.byte_strings import Bytes, Int32s, Int64s, Mask

UInt32s = npt.NDArray[np.uint32]

_MOST_BITS = 2**31 - 1
_UNPACKED_BYTES = 2**28
_CHUNK = 2**16
_AT_ONCE = 1024
# As arrays of no dimension, which NumPy takes up faster than numbers.
_HALF, _BYTE = np.array(16, np.uint32), np.array(3, np.uint32)
_IN_BYTE, _LOWEST = np.array(7, np.uint8), np.array(1, np.uint8)


def filter_bytes(keys: int, rate: float) -> int:
    """Size in bytes of a filter for ``keys`` keys and that rate of false positives."""
    bits = min(int(-keys * math.log(rate) / (math.log(2) * math.log(2))), _MOST_BITS)
    return -(-bits // 8)


class BloomFilter:
    """Which keys may be in a file. Keys are given as Murmur hashes."""

    def __init__(self, bits: Bytes, keys: int) -> None:
        """A filter of the bytes ``bits`` that was sized for ``keys`` keys.

        Requires: at least one byte and one key.
        """
        self.bits = bits
        self.keys = keys
        self._size = np.array(bits.size * 8, np.uint32)
        # Java's Math.round: halves go up.
        self._hashes = max(1, math.floor(bits.size * 8 / keys * math.log(2) + 0.5))

    @staticmethod
    def sized(keys: int, rate: float) -> BloomFilter:
        """An empty filter for ``keys`` keys (at least one) and that rate of false positives, above 0 and below 1."""
        return BloomFilter(np.zeros(max(1, filter_bytes(keys, rate)), np.uint8), keys)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.bits.nbytes

    def add(self, hashes: Int32s) -> None:
        """Add keys by their hashes."""
        if len(hashes) * 16 > self.bits.size and self.bits.size * 8 <= _UNPACKED_BYTES:
            self._add_unpacked(hashes)
            return
        for number in range(1, self._hashes + 1):
            positions = self._positions(hashes, np.uint32(number))
            np.bitwise_or.at(self.bits, positions >> np.uint32(3), _bit(positions))

    def _add_unpacked(self, hashes: Int32s) -> None:
        flags = np.zeros(self.bits.size * 8, np.bool_)
        for at in range(0, len(hashes), _CHUNK):
            for number in range(1, self._hashes + 1):
                positions = self._positions(hashes[at : at + _CHUNK], np.uint32(number))
                # NumPy converts an index of any other type piecemeal, which takes as long as the rest.
                flags[positions.astype(np.intp)] = True
        self.bits |= np.packbits(flags, bitorder="little")

    def passing(self, hashes: Int32s) -> Int64s:
        """Which keys may have been added, ascending; the others certainly have not."""
        rows: Int64s | None = None
        number = 0
        while number < self._hashes:
            # Of few keys all bits at once: it takes as long as a single one.
            together = self._hashes - number if len(hashes) <= _AT_ONCE else 1
            passed = self._test(hashes, number + 1, together)
            number += together
            if not passed.all():
                left = np.flatnonzero(passed)
                rows = left if rows is None else rows.take(left)
                hashes = hashes.take(left)
        return np.arange(len(hashes)) if rows is None else rows

    def _test(self, hashes: Int32s, number: int, count: int) -> Mask:
        """Which keys have their bits from ``number`` on, ``count`` of them."""
        numbers = np.arange(number, number + count, dtype=np.uint32)[:, None] if count > 1 else np.uint32(number)
        positions = self._positions(hashes, numbers)
        bits = self.bits.take((positions >> _BYTE).astype(np.intp), mode="clip")
        shifts = positions.astype(np.uint8)
        shifts &= _IN_BYTE
        bits >>= shifts
        if count > 1:
            bits = np.bitwise_and.reduce(bits, axis=0)
        bits &= _LOWEST
        passed: Mask = bits.view(np.bool_)
        return passed

    def _positions(self, hashes: Int32s, number: UInt32s | np.uint32) -> UInt32s:
        first = hashes.view(np.uint32)
        combined: UInt32s = first >> _HALF
        combined = combined * number
        combined += first
        np.minimum(combined, ~combined, out=combined)  # whichever of the two is not negative
        rounds = combined // self._size
        rounds *= self._size
        combined -= rounds
        return combined


def _bit(positions: UInt32s) -> Bytes:
    bits: Bytes = np.left_shift(np.uint8(1), (positions & np.uint32(7)).astype(np.uint8))
    return bits
