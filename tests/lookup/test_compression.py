"""Many blocks unpacked at once, whatever their sizes."""

from __future__ import annotations

import random

import pytest

from paimon_spark.lookup.compression import Codec, codec

SIZES = (1, 13, 1000, 2**16, 2**16 + 1, 2**18, 2**20 + 7, 2**22, 2**22 + 1)


def contents(most: int) -> list[bytes]:
    """Of each size up to ``most``, bytes that do not compress and bytes that do."""
    rng = random.Random(5)
    sizes = [size for size in SIZES if size <= most]
    return [rng.randbytes(size) for size in sizes] + [b"abc" * size for size in sizes]


def known(name: str) -> Codec:
    found = codec(name)
    assert found is not None
    return found


@pytest.mark.parametrize("most", SIZES)
@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_all_at_once_is_each_by_itself(name: str, most: int) -> None:
    packer, wanted = known(name), contents(most)
    blocks = [memoryview(packer.compress(content)) for content in wanted]
    lengths = [len(content) for content in wanted]
    assert bytes(packer.decompress_all(blocks, lengths)) == b"".join(wanted)
    assert [bytes(packer.decompress(*pair)) for pair in zip(blocks, lengths, strict=True)] == wanted


@pytest.mark.parametrize("wrong", [999, 1001])
@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_other_lengths_are_refused(name: str, wrong: int) -> None:
    packer, content = known(name), bytes(range(250)) * 4
    block = memoryview(packer.compress(content))
    with pytest.raises(ValueError, match=r"length|unpack"):
        packer.decompress(block, wrong)
    with pytest.raises(ValueError, match=r"length|unpack"):
        packer.decompress_all([block, block], [1000, wrong])
