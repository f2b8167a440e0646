"""Hash store, sort store and a dict must agree, whatever the keys, and so must batches and single lookups."""

from __future__ import annotations

import random
import tracemalloc
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.lookup import HashLookupStore, SortLookupStore, sort_writer, store_writer
from paimon_spark.lookup.block_cache import LookupMemory
from paimon_spark.lookup.key_order import CompactOrder
from paimon_spark.rows.byte_strings import joined_strings
from paimon_spark.types import parse_type
from tests.lookup.stores import COMPRESSIONS, KINDS, build, cut, random_pairs, reader, sort_context, writer


def ask(
    kind: str, path: Path, pairs: dict[bytes, bytes], wanted: list[bytes], cache: LookupMemory | None = None
) -> None:
    opened = reader(kind, path, cache)
    expected = [pairs.get(key) for key in wanted]
    assert opened.get_many(wanted).to_pylist() == expected
    few = range(0, len(wanted), max(1, len(wanted) // 20))
    assert [opened.get(wanted[i]) for i in few] == [expected[i] for i in few]
    opened.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_random_keys_of_mixed_lengths(kind: str, compression: str, tmp_path: Path) -> None:
    for seed in range(6):
        pairs = random_pairs(seed, 50 * 4**seed % 3000 + 1)
        path = tmp_path / str(seed)
        build(kind, path, pairs, 0.05 if seed % 2 else None, compression, page_size=(512, 1000, 4096)[seed % 3])
        rng = random.Random(seed)
        absent = [rng.randbytes(rng.randint(0, 14)) for _ in range(500)]
        wanted = [*pairs, *absent, *(key + b"\x00" for key in list(pairs)[:200])]
        rng.shuffle(wanted)
        ask(kind, path, pairs, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_values_of_up_to_64_kilobytes(kind: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    lengths = [0, 1, 7, 8, 9, 255, 256, 257, 300, 4_000, 65_535, 65_536]
    pairs = {rng.randbytes(length): rng.randbytes(65_536 - length) for length in lengths for _ in range(3)}
    longest = max(pairs, key=len)
    wanted = [*pairs, longest[:-1], longest + b"x", longest[:256], b"\xff" * 70_000]
    build(kind, tmp_path / "long", pairs, 0.01, "lz4")
    ask(kind, tmp_path / "long", pairs, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_long_keys_take_no_more_memory_than_a_few_times_their_own(kind: str, tmp_path: Path) -> None:
    rng, length = random.Random(9), 20_000
    pairs = {rng.randbytes(length): b"x" for _ in range(150)}
    absent = [rng.randbytes(length) for _ in range(150)]
    build(kind, tmp_path / "long", pairs)
    opened = reader(kind, tmp_path / "long", LookupMemory(1 << 24))
    wanted = pa.array([*pairs, *absent], pa.binary())
    tracemalloc.start()
    found = opened.get_many(wanted)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.to_pylist() == [b"x"] * 150 + [None] * 150
    assert peak < 5 * wanted.nbytes
    opened.close()


def test_values_of_2_gigabytes_are_too_much_for_one_answer() -> None:
    part = pa.array([bytes(2**26)], pa.binary())
    assert len(joined_strings([part, part])) == 2
    with pytest.raises(InvalidInput, match="fewer keys at once"):
        joined_strings([part] * 32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1])
def test_files_of_nothing_and_of_one_key(kind: str, count: int, tmp_path: Path) -> None:
    for rate in (None, 0.05):
        for compression in COMPRESSIONS:
            path = tmp_path / f"{rate}{compression}"
            pairs = {b"only": b""} if count else {}
            build(kind, path, pairs, rate, compression)
            ask(kind, path, pairs, [b"only", b"lone", b"", b"onl", b"only\x00"])
            opened = reader(kind, path)
            assert opened.get_many([]).to_pylist() == []
            opened.close()


def numbered_keys(numbers: np.ndarray) -> pa.BinaryArray:  # type: ignore[type-arg]
    data = numbers.astype(">u8")
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 8
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@pytest.mark.parametrize("kind", KINDS)
def test_millions_of_keys(kind: str, tmp_path: Path) -> None:
    count = 2_000_000
    made = writer(kind, tmp_path / "many", count, 0.05, "lz4", 65536)
    for start in range(0, count, 100_000):
        numbers = np.arange(start, start + 100_000)
        made.put_many(numbered_keys(numbers * 3), numbered_keys(numbers * 7))
    made.close()
    opened = reader(kind, tmp_path / "many")
    asked = np.random.default_rng(1).integers(0, 3 * count, 200_000)
    found = opened.get_many(numbered_keys(asked))
    present = asked % 3 == 0
    assert found.is_valid().to_numpy(zero_copy_only=False).tolist() == present.tolist()
    assert found.drop_null().equals(numbered_keys(asked[present] // 3 * 7))
    opened.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [0, 4096, 20_000, 60_000])
def test_memory_too_small_for_the_batch_changes_no_answer(kind: str, memory: int, tmp_path: Path) -> None:
    pairs = random_pairs(3, 4000)
    build(kind, tmp_path / "file", pairs, 0.05, "zstd")
    build(kind, tmp_path / "other", {b"x" + key: key for key in pairs}, None, "none", 4096)
    cache = LookupMemory(memory)
    wanted = [*pairs, b"absent", b"absent too"]
    random.Random(1).shuffle(wanted)
    first, second = reader(kind, tmp_path / "file", cache), reader(kind, tmp_path / "other", cache)
    expected = [pairs.get(key) for key in wanted]
    largest = 2 * 4096
    for _ in range(2):
        assert first.get_many(wanted).to_pylist() == expected
        assert second.get_many([b"x" + key for key in wanted]).to_pylist() == [
            key if key in pairs else None for key in wanted
        ]
        assert first.get_many(wanted[::-1]).to_pylist() == expected[::-1]
        assert cache.pages.budget.used <= max(memory, largest if kind == "hash" else 8 * largest)
    first.close()
    second.close()
    assert cache.pages.budget.used == 0
    assert cache.priority.budget.used == 0


@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_to_the_one_before(kind: str, tmp_path: Path) -> None:
    pairs = {b"%06d" % i: b"v%d" % (i // 50) for i in range(2000)} | {b"%04d" % i: b"v0" for i in range(300)}
    build(kind, tmp_path / "file", pairs)
    ask(kind, tmp_path / "file", pairs, list(pairs))


def test_the_hash_store_takes_keys_in_any_order_and_any_pieces(tmp_path: Path) -> None:
    pairs = list(random_pairs(5, 1000).items())
    at_once, in_pieces = (
        HashLookupStore.writer(str(tmp_path / "1"), 10),
        HashLookupStore.writer(str(tmp_path / "2"), 10),
    )
    at_once.put_many([key for key, _ in pairs], [value for _, value in pairs])
    for i in range(0, len(pairs), 13):
        keys, values = zip(*pairs[i : i + 13], strict=True)
        in_pieces.put_many(pa.array(keys, pa.large_binary()), pa.chunked_array([pa.array(values, pa.binary())]))
    at_once.close()
    in_pieces.close()
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    ask("hash", tmp_path / "1", dict(pairs), [key for key, _ in pairs])


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_sort_file_is_the_same_whatever_pieces_come(mixed: bool, compression: str, tmp_path: Path) -> None:
    """Pieces that fill no block, a few, and many megabytes; values of one size, and every thousandth another."""
    count, rng = 30_000, random.Random(4)
    pairs = {b"%08d" % i: rng.randbytes(75).hex().encode()[i % 1000 // 999 * mixed :] for i in range(count)}
    files = []
    for size in (5_000, 17, count):
        made = SortLookupStore.writer(
            str(tmp_path / str(size)), count, 0.05, compression, 1000 if size == 17 else 65536
        )
        keys = list(pairs)
        for at in range(0, count, size):
            made.put_many(keys[at : at + size], [pairs[key] for key in keys[at : at + size]])
        made.close()
        ask("sort", tmp_path / str(size), pairs, keys)
        files.append((tmp_path / str(size)).read_bytes())
    assert files[0] == files[2] != files[1]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_sort_file_is_the_same_whatever_waits(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of one size and of several, of less than a block and of many, behind rows of their size and of others."""
    rng, pairs = random.Random(8), list[tuple[bytes, bytes]]()
    for length in rng.choices([3, 90, 90, 90, 400], k=60):
        some = range(len(pairs), len(pairs) + rng.choice([1, 7, 150]))
        pairs += [(b"%06d" % i, rng.randbytes(length // 2).hex().encode()) for i in some]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
    for number in range(30):
        made = SortLookupStore.writer(str(tmp_path / str(number)), len(pairs), 0.05, compression, 1000)
        borders = sorted({0, len(pairs), *rng.sample(range(len(pairs)), 2 * number)})
        for start, stop in pairwise(borders):
            made.put_many(keys[start:stop], values[start:stop])
        made.close()
        monkeypatch.setattr(sort_writer, "_PIECE", 2_000)
        for end in ("", ".context"):
            assert (tmp_path / f"{number}{end}").read_bytes() == (tmp_path / f"0{end}").read_bytes()
    ask("sort", tmp_path / "29", dict(pairs), [key for key, _ in pairs])


@pytest.mark.parametrize("memory", [0, 10_000, 50_000, 2**22])
def test_values_lie_over_the_borders_of_pieces(memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of no, one and several pieces, in blocks that are cut and in others, which do not become smaller."""
    cut(monkeypatch, 512)
    rng = random.Random(6)
    pairs = {b"%06d" % i: (b"%d" % i * 300)[: i % 7 * 300] for i in range(400)}
    pairs |= {b"%06d" % i: rng.randbytes(400) for i in range(400, 600)}
    pairs |= {b"%06d" % i: b"%d " % i * 30 for i in range(600, 1000)}
    build("sort", tmp_path / "file", pairs, None, "zstd", 4096)
    pieces = sort_context(tmp_path / "file").pieces
    assert pieces is not None
    assert 0 < (pieces.lengths > 0).sum() < len(pieces.lengths)
    opened = reader("sort", tmp_path / "file", LookupMemory(2 * memory + 100_000, 0.5))
    for _ in range(3):
        asked = rng.sample(list(pairs), 700)
        assert opened.get_many(asked).to_pylist() == [pairs[key] for key in asked]
        assert opened.get_many(asked[:5]).to_pylist() == [pairs[key] for key in asked[:5]]
    opened.close()


@pytest.mark.parametrize("pieces", [[b"a b b c"], [b"a b", b"b c"]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_twice_is_refused(kind: str, pieces: list[bytes], tmp_path: Path) -> None:
    made = writer(kind, tmp_path / "twice", 3)

    def put_all() -> None:
        for piece in pieces:
            made.put_many(piece.split(), piece.split())
        made.close()

    with pytest.raises(InvalidInput, match="62"):
        put_all()
    made.abort()
    assert list(tmp_path.iterdir()) == []


def test_many_equal_keys_are_found_wherever_they_collide(tmp_path: Path) -> None:
    rng = random.Random(2)
    for seed in range(30):
        keys = [b"%03d" % i for i in range(300)]
        rng.shuffle(keys)
        keys.insert(rng.randrange(len(keys)), keys[rng.randrange(len(keys))])
        made = HashLookupStore.writer(str(tmp_path / str(seed)), 10)
        made.put_many(keys, keys)
        with pytest.raises(InvalidInput, match="put twice"):
            made.close()


def test_keys_out_of_order_are_refused_by_the_sort_store(tmp_path: Path) -> None:
    for first, second in ((b"b", b"a"), (b"a\x00", b"a"), (b"a" * 300, b"a" * 299), (b"aaaaaaaab", b"aaaaaaaaa")):
        made = SortLookupStore.writer(str(tmp_path / "file"), 2)
        with pytest.raises(InvalidInput, match="ascend"):
            made.put_many([first, second], [b"", b""])
        made.abort()
    made = SortLookupStore.writer(str(tmp_path / "file"), 2)
    made.put(b"b", b"")
    made.put(b"a", b"")
    with pytest.raises(InvalidInput, match="ascend"):
        made.close()
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments(tmp_path: Path) -> None:
    for kind in KINDS:
        made = writer(kind, tmp_path / "file", 2)
        with pytest.raises(InvalidInput, match="2 keys came with 1"):
            made.put_many([b"a", b"b"], [b""])
        with pytest.raises(InvalidInput, match="null"):
            made.put_many([b"a", None], [b"", b""])  # type: ignore[list-item]
        with pytest.raises(InvalidInput, match="byte strings"):
            made.put_many([b"a"], [1])  # type: ignore[list-item]
        with pytest.raises(InvalidInput, match="not bytes and int"):
            made.put(b"a", 1)  # type: ignore[arg-type]
        made.abort()
        with pytest.raises(UnsupportedFeature, match="lzo"):
            writer(kind, tmp_path / "file", 2, compression="lzo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", [HashLookupStore, SortLookupStore])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("page_size", [0, -1, 2**30 + 1]),
        ("bloom_fpp", [0.0, 1.0, -0.1, float("nan")]),
        ("zstd_level", [23, -(2**31)]),
        ("load_factor", [0.0, 1.01, -1.0, float("nan")]),
    ],
)
def test_sizes_and_rates_that_cannot_be_are_refused(store: Any, name: str, values: list[Any], tmp_path: Path) -> None:
    for value in values if name != "load_factor" or store is HashLookupStore else []:
        with pytest.raises(InvalidInput, match=str(value)):
            store.writer(str(tmp_path / "file"), 2, **{"compression": "zstd", name: value})
    assert list(tmp_path.iterdir()) == []


def test_a_full_table_finds_its_keys_and_no_other(tmp_path: Path) -> None:
    made = HashLookupStore.writer(str(tmp_path / "file"), 300, load_factor=1.0)
    keys = [b"%03d" % i for i in range(300)]
    made.put_many(keys, keys)
    made.close()
    pairs = dict(zip(keys, keys, strict=True))
    ask("hash", tmp_path / "file", pairs, [*keys, *(b"%03d" % i for i in range(300, 900))])


def test_a_sort_file_is_opened_in_its_own_order_only(tmp_path: Path) -> None:
    build("sort", tmp_path / "file", {b"a": b""})
    with pytest.raises(InvalidInput, match="order"):
        SortLookupStore.reader(str(tmp_path / "file"), order=CompactOrder([parse_type("INT")]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_was_never_closed_speaks_for_no_other(kind: str, tmp_path: Path) -> None:
    """Another reader may come to lie where it was in memory."""
    memory = LookupMemory(1 << 24)
    for number in range(30):
        pairs = {b"%d %d" % (number, i): b"%d" % i for i in range(300)}
        build(kind, tmp_path / str(number), pairs, 0.05)
        opened = reader(kind, tmp_path / str(number), memory)
        assert opened.get_many(list(pairs)).to_pylist() == list(pairs.values())
        file = opened._file
        del opened
        file.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_has_ended_touches_no_file_any_more(kind: str, tmp_path: Path) -> None:
    """The number of its descriptor may be another file's by then."""
    for end in ("close", "abort"):
        path = tmp_path / end
        made = writer(kind, path, 2)
        made.put(b"a", b"1")
        getattr(made, end)()
        with (tmp_path / "other").open("w+b") as other:
            for use in (partial(made.put, b"b", b"2"), partial(made.put_many, [b"b"], [b"2"]), made.close):
                with pytest.raises(InvalidInput, match="closed or aborted"):
                    use()
            made.abort()
            assert other.read() == b""
        assert path.exists() == (end == "close")
    ask(kind, tmp_path / "close", {b"a": b"1"}, [b"a", b"b"])


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_that_are_put_one_by_one_wait_in_little_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_writer, "_BUFFERED_BYTES", 1000)
    pairs, made = random_pairs(8, 3000, 200, 400), writer(kind, tmp_path / "file", 3000)
    for key in sorted(pairs):
        made.put(key, pairs[key])
        assert sum(len(key) + len(value) for key, value in made._waiting) < 1000
    made.close()
    ask(kind, tmp_path / "file", pairs, list(pairs))
