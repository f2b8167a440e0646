"""What the tests of both stores share: making a file, and opening it, by the store's kind."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from paimon_spark.lookup import HashLookupStore, SortLookupStore, compression
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.key_order import BYTEWISE, KeyOrder
from paimon_spark.lookup.sidecar import Sidecar
from paimon_spark.lookup.sort_layout import SortContext
from paimon_spark.lookup.store_reader import StoreReader
from paimon_spark.lookup.store_writer import StoreWriter

KINDS = ("hash", "sort")
COMPRESSIONS = ("none", "lz4", "zstd")


def writer(
    kind: str,
    path: Path | str,
    rows: int,
    bloom_fpp: float | None = None,
    compression: str = "none",
    page_size: int = 1024,
    order: KeyOrder = BYTEWISE,
) -> StoreWriter:
    if kind == "hash":
        return HashLookupStore.writer(str(path), rows, bloom_fpp, compression, page_size)
    return SortLookupStore.writer(str(path), rows, bloom_fpp, compression, page_size, order)


def reader(kind: str, path: Path | str, cache: LookupMemory | None = None, order: KeyOrder = BYTEWISE) -> StoreReader:
    if kind == "hash":
        return HashLookupStore.reader(str(path), cache=cache)
    return SortLookupStore.reader(str(path), cache=cache, order=order)


def build(
    kind: str,
    path: Path | str,
    pairs: dict[bytes, bytes],
    bloom_fpp: float | None = None,
    compression: str = "none",
    page_size: int = 1024,
) -> None:
    made = writer(kind, path, len(pairs), bloom_fpp, compression, page_size)
    keys = sorted(pairs)
    made.put_many(keys, [pairs[key] for key in keys])
    made.close()


def cut(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let both stores write pieces of so many bytes."""
    monkeypatch.setattr(compression, "PIECE_SIZE", size)


def sort_context(path: Path) -> SortContext:
    return SortContext.from_sidecar(str(path), Sidecar.read(str(path), "sort"))


def random_pairs(seed: int, count: int, longest_key: int = 12, longest_value: int = 40) -> dict[bytes, bytes]:
    """Keys of all lengths from 0 on, some differing only by trailing zeros; values repeat now and then."""
    rng = random.Random(seed)
    pairs = {}
    for _ in range(count):
        key = rng.randbytes(rng.randint(0, longest_key))
        pairs[key] = b"the same value" if rng.random() < 0.3 else rng.randbytes(rng.randint(0, longest_value))
        if rng.random() < 0.2:
            pairs[key + b"\x00" * rng.randint(1, 3)] = b"zero"
    return pairs
