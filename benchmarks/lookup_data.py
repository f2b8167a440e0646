"""The keys and values of the lookup benchmark, by closed formulas that Java's side repeats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.uint64]


def mix(numbers: Numbers) -> Numbers:
    """The finalizer of splitmix64, of each number times the golden ratio."""
    numbers = numbers * np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def keys(numbers: Numbers) -> pa.BinaryArray:
    """Eight bytes each, big-endian."""
    return _strings(numbers.astype(">u8").view(np.uint8).reshape(-1, 8))


def values(start: int, stop: int, length: int) -> pa.BinaryArray:
    """Up to six random words, then one letter repeated."""
    rows = np.arange(start, stop, dtype=np.uint64)
    matrix = np.empty((len(rows), length), np.uint8)
    matrix[:] = (97 + rows % np.uint64(26)).astype(np.uint8)[:, None]
    for word in range(min(6, length // 8)):
        mixed = mix(rows * np.uint64(6) + np.uint64(word)).astype("<u8")
        matrix[:, 8 * word : 8 * word + 8] = mixed.view(np.uint8).reshape(-1, 8)
    return _strings(matrix)


def asked(count: int, rows: int, seed: int, hit: bool) -> Numbers:
    """Numbers of random keys, of those in the file (even) or of those between them."""
    chosen = mix(np.arange(seed, seed + count, dtype=np.uint64)) % np.uint64(rows)
    return chosen * np.uint64(2) + np.uint64(0 if hit else 1)


def _strings(matrix: npt.NDArray[np.uint8]) -> pa.BinaryArray:
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])
