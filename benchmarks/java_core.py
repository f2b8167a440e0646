"""Paimon's Java core as a contestant: compiles ``java/Bench.java`` when there is a compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.process import REPO, Contestant
from tests.java import jvm

SOURCE = REPO / "benchmarks" / "java" / "Bench.java"
CLASSES = REPO / ".cache" / "java" / "classes"
FLAGS = ("-Xmx6g", "-XX:+UseSerialGC")


def compiler() -> Path | None:
    """``javac`` of the Java in use, or of the PATH, if there is one."""
    beside = jvm.java_home() / "bin" / "javac"
    if beside.exists():
        return beside
    found = shutil.which("javac")
    return Path(found) if found else None


def start() -> Contestant | None:
    """Java's process, or None when nothing can compile it."""
    javac = compiler()
    if javac is None:
        return None
    CLASSES.mkdir(parents=True, exist_ok=True)
    subprocess.run([javac, "-nowarn", "-cp", jvm.class_path(), "-d", CLASSES, SOURCE], check=True)
    class_path = f"{CLASSES}:{jvm.class_path()}"
    return Contestant(
        "java", [str(jvm.java_home() / "bin" / "java"), *FLAGS, *jvm.JVM_FLAGS, "-cp", class_path, "Bench"]
    )
