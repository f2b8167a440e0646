"""Rounds: every contestant once a round, so that a machine that slows down slows all of them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

ROUNDS = 5


@dataclass(frozen=True)
class Timing:
    """The medians of a contestant's rounds, in seconds, for ``items`` rows or files a round."""

    items: int
    cpu: float
    wall: float

    @property
    def rate(self) -> float:
        """Items per second of CPU."""
        return self.items / self.cpu


def run_rounds(
    contestants: Mapping[str, tuple[int, Callable[[], dict[str, Any]]]], rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Time ``name → (items, once)`` in turns, after one round to warm up; ``once`` answers with cpu and wall."""
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, (_, once) in contestants.items():
            answer = once()
            if turn > 0:
                answers[name].append(answer)
    return {
        name: Timing(items, median(a["cpu"] for a in answers[name]), median(a["wall"] for a in answers[name]))
        for name, (items, _) in contestants.items()
    }
