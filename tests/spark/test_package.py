"""Importing the package is cheap, and its names are what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "{'pyarrow', 'numpy', 'pandas', 'fastavro', 'pyroaring'}"


def _run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_package_imports_nothing_before_it_is_used() -> None:
    program = f"import sys, paimon_spark; print(sorted(({HEAVY} | {{'pyspark'}}) & set(sys.modules)))"
    assert _run(program) == "[]"


def test_discovery_imports_no_data_libraries() -> None:
    program = (
        "import sys, pyspark_paimon; print(pyspark_paimon.DefaultSource.name(), 'paimon_spark.table' in sys.modules)"
    )
    assert _run(program) == "paimon-py False"


def test_discovery_never_raises() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; import pyspark_paimon as p; print(hasattr(p, 'DefaultSource'))"
    )
    assert _run(program) == "False"


def test_the_table_needs_no_spark() -> None:
    program = "import sys; from paimon_spark import PaimonTable; print('pyspark' in sys.modules)"
    assert _run(program) == "False"


NAMES = ("check", "compact", "read", "write")


@pytest.mark.parametrize("first", [*(f"paimon_spark.{name}" for name in NAMES), "paimon_spark.spark.opening"])
def test_functions_that_are_called_like_packages_are_functions(first: str) -> None:
    program = f"import {first}, paimon_spark; print(all(callable(getattr(paimon_spark, n)) for n in {NAMES}))"
    assert _run(program) == "True"


def test_functions_are_found_where_nothing_else_was_imported() -> None:
    for name in NAMES:
        assert _run(f"import paimon_spark; print(callable(paimon_spark.{name}))") == "True"


def test_all_names_exist() -> None:
    program = "import paimon_spark as p; print(all(getattr(p, n) for n in p.__all__), set(p.__all__) <= set(dir(p)))"
    assert _run(program) == "True True"
    with pytest.raises(subprocess.CalledProcessError):
        _run("from paimon_spark import nope")
