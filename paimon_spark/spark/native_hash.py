"""file_number: what Spark's ``xxhash64(name)`` is for a file name, computed here.

XXH64 with seed 42 of the name's UTF-8 bytes, as a signed 64-bit number. The driver needs it to make the keys of
broadcast tables, which the rows of a file compute from ``_metadata.file_name``.
"""

from __future__ import annotations

import struct

_SEED = 42
_MASK = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def file_number(name: str) -> int:
    """The number of the file called ``name``."""
    data = name.encode()
    at = len(data) & ~31
    number = (_stripes(data, at) if at else _SEED + _P5) + len(data)
    while at + 8 <= len(data):
        (lane,) = struct.unpack_from("<Q", data, at)
        number = _left(number ^ _round(0, lane), 27) * _P1 + _P4
        at += 8
    if at + 4 <= len(data):
        (lane,) = struct.unpack_from("<I", data, at)
        number = _left(number ^ (lane * _P1 & _MASK), 23) * _P2 + _P3
        at += 4
    for byte in data[at:]:
        number = _left(number ^ (byte * _P5 & _MASK), 11) * _P1
    return _signed(_mixed(number & _MASK))


def _stripes(data: bytes, end: int) -> int:
    lanes = [_SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1]
    for stripe in struct.iter_unpack("<4Q", data[:end]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, stripe, strict=True)]
    number = sum(_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    for lane in lanes:
        number = ((number ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return number


def _round(lane: int, word: int) -> int:
    return _left(lane + word * _P2, 31) * _P1 & _MASK


def _left(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> (64 - bits)) & _MASK


def _mixed(number: int) -> int:
    number = (number ^ number >> 33) * _P2 & _MASK
    number = (number ^ number >> 29) * _P3 & _MASK
    return number ^ number >> 32


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
