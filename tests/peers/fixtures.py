"""The fixture ``pypaimon``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.referee import Pypaimon


@pytest.fixture(scope="session")
def pypaimon() -> Iterator[Pypaimon]:
    """pypaimon 2.1 in one process for the whole session."""
    referee = Pypaimon()
    yield referee
    referee.close()
