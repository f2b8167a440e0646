"""Who may run code, what travels between processes, and what has to be installed."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "paimon_spark").rglob("*.py"))
RUNS_CODE = {"eval", "exec", "compile", "__import__", "execfile"}
LOADS_CODE = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "yaml", "joblib", "runpy", "ctypes", "subprocess"}
HADOOPS_LIBRARY = "libhdfs.py"  # Hadoop's own, called on HDFS only
EXTENSION_TYPES = {"register_extension_type", "ExtensionType", "PyExtensionType", "UnknownExtensionType"}


def names(tree: ast.AST) -> set[str]:
    """Everything that the code calls by a bare name, imports, or takes as an attribute."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").partition(".")[0], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def test_nothing_is_unpickled_or_evaluated() -> None:
    for module in MODULES:
        tree = ast.parse(module.read_text())
        bare = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert bare & RUNS_CODE == set(), module
        allowed = {"ctypes"} if module.name == HADOOPS_LIBRARY else set()
        assert names(tree) & (LOADS_CODE | EXTENSION_TYPES) <= allowed, module


def test_the_search_finds_what_it_looks_for() -> None:
    assert names(ast.parse("import pickle\npickle.loads(b'')")) & LOADS_CODE
    assert names(ast.parse("from yaml import load")) & LOADS_CODE
    assert names(ast.parse("pa.register_extension_type(x)")) & EXTENSION_TYPES
    assert names(ast.parse("eval('1')")) & RUNS_CODE
    assert MODULES


def test_six_packages_at_most_are_needed() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    needed = [re.split(r"[><=;]", line)[0] for line in re.findall(r'"([^"]+)"', listed)]
    assert sorted(needed) == ["backports.zstd", "fastavro", "isal", "numpy", "pyarrow", "pyroaring"]
    (floor,) = re.findall(r'"pyarrow>=(\d+)"', listed)
    assert int(floor) >= 15, "before 14.0.1, loading an extension type could run code (CVE-2023-47248)"


def test_imports_are_of_the_standard_library_or_of_what_is_listed() -> None:
    allowed = {"pyarrow", "numpy", "pyroaring", "isal", "fastavro", "backports", "compression", "paimon_spark", ""}
    optional = {"pyspark": "spark/", "py4j": "spark/", "obstore": "storage/"}
    for module in MODULES:
        imported = set()
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
        room = str(module.relative_to(ROOT / "paimon_spark"))
        extra = {name for name, where in optional.items() if room.startswith(where)}
        assert imported <= allowed | extra | sys.stdlib_module_names, module
