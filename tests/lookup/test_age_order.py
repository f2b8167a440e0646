"""The order in which a cache of many files looks for its oldest pages."""

from __future__ import annotations

import random

from paimon_spark.lookup.age_order import NEVER, AgeOrder


def test_the_first_is_the_least_whatever_came_and_went() -> None:
    order, expected, rng = AgeOrder[int](), dict[int, int](), random.Random(7)
    for _ in range(5000):
        thing, bound = rng.randrange(100), rng.randrange(1000)
        if rng.random() < 0.6:
            order.put(thing, bound)
            expected[thing] = min(bound, expected.get(thing, NEVER))
        elif rng.random() < 0.5:
            order.discard(thing)
            expected.pop(thing, None)
        assert order.first() == min(expected.values(), default=NEVER)
        if expected and rng.random() < 0.2:
            bound, thing = order.pop()
            assert bound == min(expected.values()) == expected.pop(thing)
        assert set(order) == set(expected)
    while order.first() < NEVER:
        bound, thing = order.pop()
        assert bound == expected.pop(thing)
    assert not expected


def test_what_has_left_is_not_kept() -> None:
    """Nothing asks for the first one: a cache with room for all never does."""
    order = AgeOrder[int]()
    for thing in range(10_000):
        order.put(thing, thing)
        if thing >= 10:
            order.discard(thing - 10)
    assert len(order._heap) < 200
