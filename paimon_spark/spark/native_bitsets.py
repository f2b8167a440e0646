"""Sets of positions in the JVM, and the question whether one of them has a number, as an expression of Catalyst.

The sets are a ``java.util.BitSet[]``, and the question is ``sets[slot].get(position)``, in the code that Spark makes of
a condition: a row costs two loads. The array is a literal, which no plan shows but by the name of its class, which
costs Spark neither a relation nor adaptive execution, and which Spark never hashes or prints number by number. There is
no public way to say so.

The sets reach the JVM in a file, or in memory where Spark is to encrypt what it puts on local disks
(``spark.io.encryption.enabled``), as Java serializes them: all at once, where making each of them there would take a
few round trips a file. All numbers are big-endian::

    40 bytes    the class of the array
    32 bits     how many elements, each
                    1 byte      null; or
                    6 bytes     a BitSet (the first one: 45 bytes, with its class)
                    6 bytes     its long[] (the first one: 19 bytes, with its class)
                    32 bits     n, how many words
                    n x 64 bits bit (p & 63) of word (p >> 6): position p
                    1 byte      the end
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.spark.native_jvm import (
    EXPRESSIONS,
    jvm_class,
    jvm_class_object,
    jvm_expression,
    jvm_none,
    jvm_object_type,
    jvm_seq,
    jvm_static,
)

_TYPES = "org.apache.spark.sql.types.DataTypes"
_ARRAYS = "scala.runtime.ScalaRunTime"
_SET = "java.util.BitSet"
SETS = f"[L{_SET};"

_NULL, _END = b"\x70", b"\x78"
_ARRAY = bytes.fromhex("aced0005 75 72 0013") + SETS.encode() + bytes.fromhex("3b6d192804cf8e44 02 0000 78 70")
_BITS_FIELD = bytes.fromhex("5b 0004 62697473 74 0002 5b4a")
_FIRST = (
    bytes.fromhex("73 72 0010") + _SET.encode() + bytes.fromhex("6efd887e3934ab21 03 0001") + _BITS_FIELD
    + bytes.fromhex("78 70") + bytes.fromhex("75 72 0002 5b4a 782004b512b17593 02 0000 78 70")
)  # fmt: skip
_OTHER = bytes.fromhex("73 71 007e0002 75 71 007e0005")

Words = npt.NDArray[np.int64]


def serialized(sets: Sequence[Words | None]) -> bytes:
    """The sets, each as its words, as this module describes them."""
    parts = [_ARRAY, _int32(len(sets))]
    head = _FIRST
    for words in sets:
        if words is None:
            parts.append(_NULL)
        else:
            parts += (head, _int32(len(words)), words.astype(">i8").tobytes(), _END)
            head = _OTHER
    return b"".join(parts)


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def contains(session: Any, sets: bytes, slot: str, position: str, otherwise: str) -> Any:
    """An expression of Catalyst: whether the set in ``slot`` of the :func:`serialized` ``sets`` has ``position``. Both
    are ints in SQL, of which there may be few texts. Where that slot has no set, and where the position is null,
    Spark's error says ``otherwise``."""
    jvm = session.sparkContext._jvm
    invoke, static_invoke, not_null = (
        jvm_class(jvm, f"{EXPRESSIONS}.objects.{name}") for name in ("Invoke", "StaticInvoke", "AssertNotNull")
    )
    no_types, reason = jvm_seq(jvm), jvm_seq(jvm, [otherwise])
    value = _jvm_sets(session.sparkContext, sets)
    literal = jvm_class(jvm, f"{EXPRESSIONS}.Literal")(value, jvm_object_type(jvm, SETS))
    arrays, its_set = jvm_class_object(jvm, _ARRAYS), jvm_object_type(jvm, _SET)
    of_slot = jvm_seq(jvm, [literal, jvm_expression(jvm, slot)])
    found = static_invoke(arrays, its_set, "array_apply", of_slot, no_types, True, True, True, jvm_none(jvm))
    at = jvm_seq(jvm, [not_null(jvm_expression(jvm, position), reason)])
    boolean = jvm_static(jvm, _TYPES, "BooleanType")
    return invoke(not_null(found, reason), "get", boolean, at, no_types, True, False, True)


def _jvm_sets(context: Any, sets: bytes) -> Any:
    """The ``java.util.BitSet[]``."""
    jvm = context._jvm
    open_objects = jvm_class(jvm, "java.io.ObjectInputStream")
    if context._encryption_enabled:
        return open_objects(jvm_class(jvm, "java.io.ByteArrayInputStream")(sets)).readObject()
    with tempfile.NamedTemporaryFile(dir=context._temp_dir) as file:
        file.write(sets)
        file.flush()
        stream = open_objects(jvm_class(jvm, "java.io.FileInputStream")(file.name))
        try:
            return stream.readObject()
        finally:
            stream.close()
