"""The fixture ``java``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.java.referee import JavaPaimon


@pytest.fixture(scope="session")
def java() -> Iterator[JavaPaimon]:
    """Paimon's Java core 0.9 in one JVM for the whole session."""
    referee = JavaPaimon()
    yield referee
    referee.close()
