"""Paimon's Murmur hashes of many byte strings at once.

It is Murmur3 (x86, 32 bit) with one difference: each of the up to three bytes behind the last whole little-endian
word is sign-extended and mixed like a word. Rows are whole words, so their hashes are plain Murmur3.

A hash is a chain over its blocks, one step a block, so all values advance side by side, one NumPy pass a block.
Values of unequal length are ranked longest first: those that have a block number j are then a prefix. When few
are left, as with one value of a megabyte among short ones, each finishes alone, which is cheaper than a pass.

Source: ``MurmurHashUtils`` of Apache Paimon.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.rows.arrow_buffers import ByteValues, Int64Array, positions_within

Int32Array = npt.NDArray[np.int32]
UInt32Array = npt.NDArray[np.uint32]

SEED = 42

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_FIVE, _ADD = 5, 0xE6546B64
_FINAL1, _FINAL2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_MASK = 0xFFFFFFFF
_FEW = 16


def hash_rows(rows: pa.BinaryArray) -> Int32Array:
    """The hash code of each BinaryRow (as ``binary_row.encode`` returns them), as Java's ``BinaryRow.hashCode``.

    Requires: no nulls; every length is a multiple of four.
    """
    values = ByteValues.of(rows)
    size = int(values.lengths.sum())
    blocks = values.data[:size].view(np.dtype("<u4"))
    return _hash(blocks, values.lengths // 4, values.lengths, SEED)


def hash_bytes_many(values: pa.BinaryArray, seed: int = SEED) -> Int32Array:
    """The hash of each value, of any length, as Java's ``MurmurHashUtils.hashBytes``.

    Requires: no nulls.
    """
    found = ByteValues.of(values)
    whole, tail = found.lengths // 4, found.lengths % 4
    counts = whole + tail
    rows, numbers = positions_within(counts)
    behind = numbers - whole[rows]
    firsts = np.where(behind < 0, numbers * 4, whole[rows] * 4 + behind)
    blocks = found.words(rows, firsts).astype(np.uint32)
    in_tail = behind >= 0
    blocks[in_tail] = blocks[in_tail].astype(np.int8).astype(np.int32).view(np.uint32)
    return _hash(blocks, counts, found.lengths, seed)


def hash_bytes(data: bytes, seed: int = SEED) -> int:
    """:func:`hash_bytes_many` of one value, as a signed 32-bit number."""
    return int(hash_bytes_many(pa.array([data], pa.binary()), seed)[0])


def _hash(blocks: UInt32Array, counts: Int64Array, lengths: Int64Array, seed: int) -> Int32Array:
    """Hashes of values of ``counts`` blocks each, whose blocks lie one after another in ``blocks``."""
    mixed = _rotated(blocks * _C1, 15) * _C2
    hashes = np.full(len(counts), seed, np.uint32)
    if len(counts) and counts.min() == counts.max():
        matrix = mixed.reshape(len(counts), int(counts[0]))
        for j in range(matrix.shape[1]):
            hashes = _step(hashes, matrix[:, j])
    else:
        _chain_unequal(hashes, mixed, counts)
    hashes ^= lengths.astype(np.uint32)
    hashes ^= hashes >> np.uint32(16)
    hashes *= _FINAL1
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FINAL2
    hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


def _chain_unequal(hashes: UInt32Array, mixed: UInt32Array, counts: Int64Array) -> None:
    """Advance ``hashes`` in place over all blocks of their values."""
    order = np.argsort(-counts, kind="stable")
    ranked = counts[order]
    starts = (np.cumsum(counts) - counts)[order]
    chain = hashes[order]
    shared = int(ranked[_FEW]) if len(ranked) > _FEW else 0
    active = np.searchsorted(-ranked, -np.arange(shared), side="left")
    for j, n in enumerate(active.tolist()):
        chain[:n] = _step(chain[:n], mixed[starts[:n] + j])
    for i in np.flatnonzero(ranked[:_FEW] > shared).tolist():
        rest = mixed[starts[i] + shared : starts[i] + ranked[i]]
        chain[i] = _finish_one(int(chain[i]), rest)
    hashes[order] = chain


def _step(hashes: UInt32Array, mixed: UInt32Array) -> UInt32Array:
    stepped: UInt32Array = _rotated(hashes ^ mixed, 13) * np.uint32(_FIVE) + np.uint32(_ADD)
    return stepped


def _finish_one(chain: int, mixed: UInt32Array) -> int:
    for block in mixed.tolist():
        chain ^= block
        chain = ((chain << 13 | chain >> 19) * _FIVE + _ADD) & _MASK
    return chain


def _rotated(words: UInt32Array, left: int) -> UInt32Array:
    rotated: UInt32Array = (words << np.uint32(left)) | (words >> np.uint32(32 - left))
    return rotated
