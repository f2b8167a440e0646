"""How much work the long tests do: little in every run, a lot under ``make soak``; and a source of chance."""

from __future__ import annotations

import os
import random
import zlib

SOAK = os.environ.get("PAIMON_SOAK") == "1"


def sized(usual: int, soak: int) -> int:
    """The size for this run."""
    return soak if SOAK else usual


def seeded(name: str) -> random.Random:
    """A source of chance: the same for this name in every usual run, so that no run fails where the one before it
    passed the same code; another one each time in soak. The seed is printed, and PAIMON_SEED repeats a run."""
    drawn = random.SystemRandom().randrange(2**32) if SOAK else zlib.crc32(name.encode())
    seed = int(os.environ.get("PAIMON_SEED") or drawn)
    print(f"{name}: PAIMON_SEED={seed}")
    return random.Random(seed)
