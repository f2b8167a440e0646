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

from paimon_spark.rows.arrow_buffers import ByteValues, UInt8Array
from paimon_spark.rows.byte_strings import equal_rows

Int32Array = npt.NDArray[np.int32]
UInt32Array = npt.NDArray[np.uint32]

SEED = 42

# As arrays of no dimension, which NumPy takes up faster than numbers.
_C1, _C2, _FIVE, _ADD, _FINAL1, _FINAL2, _13, _15, _16, _17, _19 = (
    np.array(number, np.uint32)
    for number in (0xCC9E2D51, 0x1B873593, 5, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35, 13, 15, 16, 17, 19)
)
_MASK = 0xFFFFFFFF
_FEW = 16
_ROWS_AT_ONCE = 65_536
"""Few enough for the processor's caches."""


def hash_rows(rows: pa.BinaryArray) -> Int32Array:
    """The hash code of each BinaryRow (as ``binary_row.encode`` returns them), as Java's ``BinaryRow.hashCode``.

    Requires: no nulls.
    """
    return hash_bytes_many(rows, SEED)


def hash_bytes_many(values: pa.BinaryArray, seed: int = SEED) -> Int32Array:
    """The hash of each value, of any length, as Java's ``MurmurHashUtils.hashBytes``.

    Requires: no nulls.
    """
    rows = equal_rows(values)
    if rows is not None:
        return hash_matrix(rows, seed)
    pieces = range(0, len(values), _ROWS_AT_ONCE)
    return np.concatenate([_hash(values.slice(i, _ROWS_AT_ONCE), seed) for i in pieces] or [np.zeros(0, np.int32)])


def hash_matrix(values: UInt8Array, seed: int = SEED) -> Int32Array:
    """The hash of each row of a matrix of bytes, as :func:`hash_bytes_many` of its rows."""
    count, width = values.shape
    hashes = np.full(count, seed, np.uint32)
    flat = np.ascontiguousarray(values).reshape(-1)
    for at in range(0, count, _ROWS_AT_ONCE):
        some = hashes[at : at + _ROWS_AT_ONCE]
        _chain_equal(some, flat[at * width : (at + len(some)) * width], width)
        _finish(some, np.uint32(width))
    return hashes.view(np.int32)


def hash_bytes(data: bytes, seed: int = SEED) -> int:
    """:func:`hash_bytes_many` of one value, as a signed 32-bit number."""
    return int(hash_bytes_many(pa.array([data], pa.binary()), seed)[0])


def _hash(values: pa.BinaryArray, seed: int) -> Int32Array:
    found = ByteValues.of(values)
    lengths = found.lengths
    hashes = np.full(len(lengths), seed, np.uint32)
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        _chain_equal(hashes, found.data, longest)
    else:
        _chain_unequal(hashes, found)
    _finish(hashes, lengths.astype(np.uint32))
    return hashes.view(np.int32)


def _chain_equal(hashes: UInt32Array, data: UInt8Array, length: int) -> None:
    """Advance ``hashes`` in place over all blocks of values of one length, which lie one after another."""
    words = np.ndarray((length // 4, len(hashes)), np.dtype("<u4"), data, strides=(4, length))
    mixed, bits = np.empty_like(hashes), np.empty_like(hashes)
    for word in words:
        _advance(hashes, word, mixed, bits)
    tail = data[: len(hashes) * length].reshape(len(hashes), length)[:, length // 4 * 4 :]
    for byte in tail.T:
        _advance(hashes, _sign_extended(byte), mixed, bits)


def _chain_unequal(hashes: UInt32Array, values: ByteValues) -> None:
    """Advance ``hashes`` in place over all blocks of values of different lengths."""
    order = np.argsort(-values.lengths, kind="stable")
    starts, lengths = values.starts[order], values.lengths[order]
    words = np.ndarray((len(values.data) - 3,), np.dtype("<u4"), values.data, strides=(1,))
    chain = hashes[order]
    counts = lengths // 4
    shared = int(counts[_FEW]) if len(counts) > _FEW else 0
    active = np.searchsorted(-counts, -np.arange(shared), side="left")
    for j, n in enumerate(active.tolist()):
        chain[:n] = _step(chain[:n], words[starts[:n] + 4 * j])
    for i in np.flatnonzero(counts[:_FEW] > shared).tolist():
        rest = words[starts[i] + 4 * shared : starts[i] + 4 * counts[i] : 4]
        chain[i] = _finish_one(int(chain[i]), rest)
    for t in range(3):
        more = np.flatnonzero(lengths % 4 > t)
        bytes_ = values.data[starts[more] + 4 * counts[more] + t]
        chain[more] = _step(chain[more], _sign_extended(bytes_))
    hashes[order] = chain


def _finish(hashes: UInt32Array, lengths: UInt32Array | np.uint32) -> None:
    bits = np.empty_like(hashes)
    hashes ^= lengths
    hashes ^= np.right_shift(hashes, _16, bits)
    hashes *= _FINAL1
    hashes ^= np.right_shift(hashes, _13, bits)
    hashes *= _FINAL2
    hashes ^= np.right_shift(hashes, _16, bits)


def _sign_extended(tail: UInt8Array) -> UInt32Array:
    return tail.view(np.int8).astype(np.int32).view(np.uint32)


def _step(hashes: UInt32Array, blocks: UInt32Array) -> UInt32Array:
    """The hashes after one more block each."""
    stepped: UInt32Array = _rotated(hashes ^ _mixed(blocks), 13) * _FIVE + _ADD
    return stepped


def _advance(hashes: UInt32Array, blocks: UInt32Array, mixed: UInt32Array, bits: UInt32Array) -> None:
    """:func:`_step` in place; ``mixed`` and ``bits`` are room for it."""
    np.multiply(blocks, _C1, mixed)
    np.right_shift(mixed, _17, bits)
    mixed <<= _15
    mixed |= bits
    mixed *= _C2
    hashes ^= mixed
    np.right_shift(hashes, _19, bits)
    hashes <<= _13
    hashes |= bits
    hashes *= _FIVE
    hashes += _ADD


def _finish_one(chain: int, blocks: UInt32Array) -> int:
    """One value's hash after its last blocks."""
    for block in _mixed(blocks).tolist():
        chain ^= block
        chain = ((chain << 13 | chain >> 19) * int(_FIVE) + int(_ADD)) & _MASK
    return chain


def _mixed(blocks: UInt32Array) -> UInt32Array:
    mixed: UInt32Array = _rotated(blocks * _C1, 15) * _C2
    return mixed


def _rotated(words: UInt32Array, left: int) -> UInt32Array:
    rotated: UInt32Array = (words << np.uint32(left)) | (words >> np.uint32(32 - left))
    return rotated
