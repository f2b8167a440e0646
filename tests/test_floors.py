"""The house's floors: who may import whom, what nobody may import, and how long a module may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
PACKAGE = REPO / "paimon_spark"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the ground up. A module imports from its own room, and from rooms on lower floors; rooms of one floor do not
# know each other.
FLOORS = (
    ("types", "options", "errors", "predicate", "arrays", "checksum"),
    ("storage",),
    ("rows",),
    ("metadata",),
    ("files",),
    ("merge",),
    ("lookup",),
    ("write", "read", "compact", "check"),
    ("table",),
    ("spark",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
GROUND = set(FLOORS[0])
NOBODY = ("pyarrow.dataset", "pandas", "polars", "pypaimon", "duckdb")
LONGEST = 400


def room_of(module: Path) -> str:
    """``paimon_spark/merge/keys.py`` is in the room ``merge``; the package's own ``__init__`` stands above all."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(module: Path) -> set[str]:
    """The full names of all modules that a module imports, anywhere in it; ``from a import b`` counts as a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
            assert node.module is not None
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def names(modules: list[Path]) -> list[str]:
    return [str(m.relative_to(REPO)) for m in modules]


@pytest.mark.parametrize("module", MODULES, ids=names(MODULES))
def test_imports_go_down(module: Path) -> None:
    room = room_of(module)
    if room == "__init__":
        return
    assert room in FLOOR, f"{room} has no floor"
    for imported in imports(module):
        parts = imported.split(".")
        if parts[0] != "paimon_spark" or len(parts) < 2 or parts[1] == room:
            continue
        assert parts[1] in FLOOR, f"{imported} has no floor"
        allowed = FLOOR[parts[1]] < FLOOR[room] or (room in GROUND and parts[1] in GROUND)
        assert allowed, f"{room} imports {imported}, which does not lie below it"


@pytest.mark.parametrize("module", MODULES, ids=names(MODULES))
def test_only_the_top_floor_knows_spark(module: Path) -> None:
    found = imports(module)
    if room_of(module) != "spark":
        assert not [name for name in found if is_below(name, "pyspark")]
    assert not [name for name in found for refused in NOBODY if is_below(name, refused)]


@pytest.mark.parametrize("module", [*MODULES, REPO / "pyspark_paimon.py"], ids=lambda m: str(m.relative_to(REPO)))
def test_runs_nothing_it_reads_and_stays_short(module: Path) -> None:
    text = module.read_text()
    assert text.count("\n") <= LONGEST
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "pickle.loads", "pickle.load", "marshal.loads"), f"line {node.lineno}"


def test_importing_the_package_is_cheap() -> None:
    wasted = ("fastavro", "backports.zstd", "pyspark", "pandas", "pyarrow.dataset")
    program = f"import paimon_spark, sys; print([m for m in {wasted!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPO)
    assert answer.stdout.strip() == "[]"
