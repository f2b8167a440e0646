"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.archives import unpack
from tests.sizes import SOAK

# Examples of a usual run are the same in each, and new in soak. Neither their order nor their number depends on how
# long one takes: a busy machine may stand still for longer than Hypothesis lets a test of microseconds take.
settings.register_profile("paimon", deadline=None, derandomize=not SOAK, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paimon")

# Tests say themselves which store they ask, and as whom. Their servers are on this machine, whatever proxy it has. And
# names of files are UTF-8, in Java as well, which goes by the locale.
for _name in [n for n in os.environ if n == "HADOOP_CONF_DIR" or n.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
    del os.environ[_name]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
os.environ["LC_ALL"] = "C.UTF-8"

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what Java wrote: ``java-0.9/<case>``, ``java-2.0/<case>`` and ``vectors``. Read only."""
    root = tmp_path_factory.mktemp("golden")
    for archive in sorted((DATA / "golden").glob("*.tar.gz")):
        unpack(archive, root)
    return root
