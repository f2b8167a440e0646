"""What native scans look up in the JVM, each of it once.

Every name that Python looks up there is a round trip, and so is every call: a tenth of a millisecond, and there are a
hundred to open a scan. What never changes is remembered, for the JVM of the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

FUNCTIONS = "org.apache.spark.sql.functions"
_SEPARATOR = "\0"
# Names and texts that are remembered; this package has a few dozen.
_KNOWN = 128


@lru_cache(_KNOWN)
def jvm_class(jvm: Any, name: str) -> Any:
    """The class of this name, to make objects of."""
    return getattr(jvm, name)


@lru_cache(_KNOWN)
def jvm_static(jvm: Any, owner: str, name: str) -> Any:
    """The static method ``name``, or the value of the static field, of the class ``owner``."""
    return getattr(jvm_class(jvm, owner), name)


@lru_cache(_KNOWN)
def jvm_expression(jvm: Any, sql: str) -> Any:
    """``sql`` as a column of the JVM, not bound to any DataFrame. Requires: one of few texts."""
    return jvm_static(jvm, FUNCTIONS, "expr")(sql)


@lru_cache(_KNOWN)
def jvm_options(jvm: Any, options: tuple[tuple[str, str], ...]) -> Any:
    """A map of ``options``, (key, value) pairs, that nobody may change."""
    found = jvm_class(jvm, "java.util.HashMap")()
    for key, value in options:
        found.put(key, value)
    return found


def jvm_strings(jvm: Any, texts: Sequence[str]) -> Any:
    """A Seq of ``texts``, none of them empty, in a few round trips: they go there as one, to be cut there."""
    whole = _SEPARATOR.join(texts)
    if whole.count(_SEPARATOR) == len(texts) - 1:
        listed = _splitter(jvm).splitAsStream(whole).toList()
    else:
        listed = jvm_class(jvm, "java.util.ArrayList")()
        for text in texts:
            listed.add(text)
    return jvm_static(jvm, "PythonUtils", "toSeq")(listed)


@lru_cache(1)
def _splitter(jvm: Any) -> Any:
    return jvm_static(jvm, "java.util.regex.Pattern", "compile")(_SEPARATOR)
