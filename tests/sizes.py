"""How much work the long tests do: little in every run, a lot under ``make soak``; and a source of chance."""

from __future__ import annotations

import os
import random

SOAK = os.environ.get("PAIMON_SOAK") == "1"


def sized(usual: int, soak: int) -> int:
    """The size for this run."""
    return soak if SOAK else usual


def seeded(name: str) -> random.Random:
    """A source of chance whose seed is printed, so that a failure shows it; PAIMON_SEED repeats a run."""
    seed = int(os.environ.get("PAIMON_SEED") or random.SystemRandom().randrange(2**32))
    print(f"{name}: PAIMON_SEED={seed}")
    return random.Random(seed)
