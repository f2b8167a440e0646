"""Two S3 servers: moto, which knows all of S3, and one of our own, which can be made to fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.moto_server import MotoServer
from tests.storage.object_server import ObjectServer


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    """A moto server for all tests; each uses keys of its own."""
    server = MotoServer()
    yield server
    server.stop()


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    """A server that can fail, with an empty bucket."""
    server = ObjectServer()
    yield server
    server.stop()
