"""What native scans look up in the JVM, each of it once.

Every name that Python looks up there is a round trip, and so is every call: up to a tenth of a millisecond, and there
are dozens to open a scan. What never changes is remembered, for the JVM of the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
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


def jvm_parser(jvm: Any) -> Any:
    """Spark's parser of SQL."""
    return jvm_static(jvm, "org.apache.spark.sql.catalyst.parser.CatalystSqlParser$", "MODULE$")


@lru_cache(_KNOWN)
def jvm_expression(jvm: Any, sql: str) -> Any:
    """``sql`` as an expression of Catalyst, not bound to any plan. Requires: one of few texts."""
    return jvm_parser(jvm).parseExpression(sql)


@lru_cache(_KNOWN)
def jvm_class_object(jvm: Any, name: str) -> Any:
    """The ``java.lang.Class`` of this name."""
    return jvm_static(jvm, "java.lang.Class", "forName")(name)


@lru_cache(_KNOWN)
def jvm_object_type(jvm: Any, name: str) -> Any:
    """The type of Catalyst whose values are objects of the class of this name."""
    return jvm_class(jvm, "org.apache.spark.sql.types.ObjectType")(jvm_class_object(jvm, name))


@lru_cache(_KNOWN)
def jvm_none(jvm: Any) -> Any:
    """Scala's None."""
    return jvm_static(jvm, "scala.Option", "empty")()


def jvm_seq(jvm: Any, values: Sequence[Any] = ()) -> Any:
    """A Seq of a few ``values`` of the JVM."""
    listed = jvm_class(jvm, "java.util.ArrayList")()
    for value in values:
        listed.add(value)
    return jvm_static(jvm, "PythonUtils", "toSeq")(listed)


@lru_cache(_KNOWN)
def jvm_options(jvm: Any, options: tuple[tuple[str, str], ...]) -> Any:
    """A map of ``options``, (key, value) pairs, that nobody may change."""
    found = jvm_class(jvm, "java.util.HashMap")()
    for key, value in options:
        found.put(key, value)
    return found


@lru_cache(_KNOWN)
def jvm_scala_map(jvm: Any, options: tuple[tuple[str, str], ...]) -> Any:
    """``options``, (key, value) pairs, as an immutable Map of Scala's."""
    return jvm_static(jvm, "PythonUtils", "toScalaMap")(jvm_options(jvm, options))


def jvm_strings(jvm: Any, texts: Sequence[str]) -> Any:
    """A Seq of ``texts``, none of them empty, in a few round trips: they go there as one, to be cut there."""
    if not texts or any(_SEPARATOR in text for text in texts):
        return jvm_seq(jvm, texts)
    return _seq_of_array(jvm, _cut(jvm, texts))


def jvm_paths(jvm: Any, texts: Sequence[str]) -> Any:
    """A Seq of Hadoop's paths."""
    if not texts:
        return jvm_seq(jvm)
    to_paths = jvm_static(jvm, "org.apache.hadoop.util.StringUtils", "stringToPath")
    return _seq_of_array(jvm, to_paths(_cut(jvm, texts)))


def _cut(jvm: Any, texts: Sequence[str]) -> Any:
    return _splitter(jvm).split(_SEPARATOR.join(texts))


def _seq_of_array(jvm: Any, array: Any) -> Any:
    return jvm_static(jvm, "scala.collection.immutable.ArraySeq", "unsafeWrapArray")(array)


@lru_cache(1)
def _splitter(jvm: Any) -> Any:
    return jvm_static(jvm, "java.util.regex.Pattern", "compile")(_SEPARATOR)
