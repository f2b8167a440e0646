"""Tables on storages that misbehave."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from paimon_spark.storage.storage import Storage

Use = Callable[[Storage], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Lets tables use a storage of the test's choice, and nobody wait before trying again."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def choose(storage: Storage) -> None:
        monkeypatch.setattr("paimon_spark.table.locate", lambda path, options: (storage, path))

    return choose
