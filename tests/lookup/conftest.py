"""Fixtures of the lookup tests: the files that Java wrote, and keys and values to try."""

from __future__ import annotations

import gc
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.lookup.hash_layout import HashContext
from paimon_spark.lookup.key_order import BYTEWISE, CompactOrder, KeyOrder
from paimon_spark.lookup.sort_layout import SortContext
from paimon_spark.types import parse_type
from tests.archives import unpack

# A forked child must not collect Java objects of its parent: their finalizers would ask Java through the parent's
# socket, and wait for an answer that the parent gets.
os.register_at_fork(after_in_child=gc.freeze)

DATA = Path(__file__).parents[1] / "data" / "lookup"


@dataclass(frozen=True)
class GoldenFile:
    """One lookup file of Java: what was put, what Java answered, and how the file was made."""

    name: str
    kind: str
    path: Path
    compression: str
    bloom: bool
    page_size: int
    order: KeyOrder
    context: HashContext | SortContext
    pairs: list[tuple[bytes, bytes]]
    answers: list[tuple[bytes, bytes | None]]


def _order(comparator: str) -> KeyOrder:
    if comparator == "unsigned bytes":
        return BYTEWISE
    return CompactOrder([parse_type(comparator.removeprefix("RowCompacted(").removesuffix(")"))])


def _context(entry: dict[str, Any]) -> HashContext | SortContext:
    if entry["kind"] == "sort":
        return SortContext(entry["file_size"])
    java = entry["context"]
    sections = ("keyCounts", "slotSizes", "slots", "indexOffsets", "dataOffsets")
    pages = java["compressPages"]
    return HashContext(
        java["bloomFilterExpectedEntries"],
        java["bloomFilterBytes"],
        *(tuple(java[name]) for name in sections),
        length=java["uncompressBytes"] or entry["file_size"],
        page_size=entry["page_or_block_size"],
        compression=entry["compression"],
        page_starts=None if pages is None else tuple(pages),
    )


def _unhex(pairs: list[list[str | None]]) -> list[Any]:
    return [tuple(None if text is None else bytes.fromhex(text) for text in pair) for pair in pairs]


@pytest.fixture(scope="session")
def golden_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Java wrote: lookup files, ``index.json`` and ``bloom.json``; ``java-2.0-sort`` holds those of Paimon 2.0."""
    root = tmp_path_factory.mktemp("golden-lookup")
    unpack(DATA / "lookup.tar.gz", root)
    return root / "lookup"


@pytest.fixture(scope="session")
def golden_files(golden_directory: Path) -> list[GoldenFile]:
    """Every lookup file that Paimon 0.9 wrote."""
    return [
        GoldenFile(
            entry["name"],
            entry["kind"],
            golden_directory / entry["file"],
            entry["compression"],
            entry["bloom"],
            entry["page_or_block_size"],
            _order(entry["comparator"]),
            _context(entry),
            _unhex(json.loads((golden_directory / entry["data"]).read_text())["kvs"]),
            _unhex(entry["queries"]),
        )
        for entry in json.loads((golden_directory / "index.json").read_text())
    ]
