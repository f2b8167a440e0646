"""Fixtures shared by all tests."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what Java wrote: ``java-0.9/<case>``, ``java-2.0/<case>`` and ``vectors``. Read only."""
    root = tmp_path_factory.mktemp("golden")
    for archive in sorted((DATA / "golden").glob("*.tar.gz")):
        with tarfile.open(archive) as tar:
            tar.extractall(root, filter="data")
    return root
