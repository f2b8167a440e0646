"""Writes and compactions on clusters whose executors are processes of their own, and fail, stand still or die."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from tests.java.jvm import java_home
from tests.sizes import SOAK
from tests.spark.cluster.program import SCENARIOS
from tests.spark.cluster.standalone import standalone_cluster
from tests.spark.versions import newest_only

pytestmark = newest_only  # twice the time otherwise
REPO = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
LONGEST_RUN_SECONDS = 1800
# Little but what a JVM of few jobs needs: no second compiler, one thread for garbage.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# All of them in soak; each kind of job meets two kinds of faults here. Spark starts no second copy of a task on the
# host of the first, and a local cluster is one host.
ON_A_LOCAL_CLUSTER = ("appends_while_an_executor_dies", "compactions_while_tasks_fail")
ON_TWO_HOSTS = (
    "writes_by_bucket_with_a_straggler",
    "compactions_with_a_straggler",
    "appends_while_tasks_fail",
    "writes_by_bucket_while_an_executor_dies",
    "compactions_while_an_executor_dies",
)
if SOAK:
    ON_TWO_HOSTS = tuple(SCENARIOS)
    ON_A_LOCAL_CLUSTER = tuple(name for name in SCENARIOS if "straggler" not in name)
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.task.maxFailures": "4",
    # A straggler is not killed on its way to its end, where it deletes its files.
    "spark.python.task.killTimeout": "200s",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
}


def _environment(directory: Path) -> dict[str, str]:
    """That of all processes of a cluster. Executors work in Spark's home, so this is one of links to the real one."""
    home = directory / "home"
    if not home.exists():
        home.mkdir()
        for part in Path(pyspark.__file__).parent.iterdir():
            if part.name in ("bin", "jars", "python"):
                (home / part.name).symlink_to(part)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **kept,
        "JAVA_HOME": os.environ.get("JAVA_HOME") or str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(REPO),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(home),
    }


def _run(master: str, directory: Path, names: Sequence[str], settings: dict[str, str]) -> None:
    """Submit the program with these scenarios."""
    faults = directory / "faults"
    faults.mkdir()
    everywhere = {
        **CONFIGURATION,
        **settings,
        "spark.local.dir": str(directory / "spark"),
        "spark.executorEnv.PYTHONPATH": f"{HERE / 'faults'}{os.pathsep}{REPO}",
        "spark.executorEnv.PAIMON_TEST_FAULTS": str(faults),
    }
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", master]
    for key, value in everywhere.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(HERE / "program.py"), str(directory), *names]
    done = subprocess.run(
        command, env=_environment(directory), capture_output=True, text=True, check=False, timeout=LONGEST_RUN_SECONDS
    )
    (directory / "output").write_text(done.stdout + done.stderr)


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scenarios left their results, after a run on ``local-cluster``."""
    directory = tmp_path_factory.mktemp("local-cluster")
    _run("local-cluster[2,1,1024]", directory, ON_A_LOCAL_CLUSTER, {})
    return directory


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a run on a standalone cluster of two hosts."""
    directory = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(directory, _environment(directory)) as url:
        _run(url, directory, ON_TWO_HOSTS, SPECULATION)
    return directory


def _assert_passed(directory: Path, name: str) -> None:
    failed = directory / f"{name}.failed"
    assert not failed.exists(), failed.read_text()
    assert (directory / f"{name}.passed").exists(), (directory / "output").read_text()[-4000:]


@pytest.mark.parametrize("name", ON_A_LOCAL_CLUSTER)
def test_on_a_local_cluster(local_cluster: Path, name: str) -> None:
    _assert_passed(local_cluster, name)


@pytest.mark.parametrize("name", ON_TWO_HOSTS)
def test_on_a_standalone_cluster(standalone: Path, name: str) -> None:
    _assert_passed(standalone, name)
