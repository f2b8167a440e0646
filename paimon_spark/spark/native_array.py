"""Large arrays of numbers as columns of Spark's, for conditions that look numbers up in them.

Such a column is a literal, which no plan shows but by the name of its class, and which costs Spark neither a relation
nor adaptive execution. Spark has no public way to make one of an array that it does not print, element by element. So
this goes through its own classes, and where they are not as they are known to be, the array is the value of a scalar
subquery instead, which takes tens of milliseconds more. Large arrays always are: Spark hashes a literal several times a
query, wherever it stands. So is every array where Spark is to encrypt what it puts on local disks
(``spark.io.encryption.enabled``).

The numbers reach the JVM in a file, as Java serializes objects, each a ``long[]``; all numbers big-endian::

    4 bytes     ac ed, version 5
    19 bytes    an array: the class, "[J"
    32 bits     n, how many numbers
    n x 64 bits
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from paimon_spark.options import MB
from paimon_spark.spark.native_jvm import jvm_class, jvm_static

LITERAL_BYTES = 4 * MB
ARRAY_CLASS = "org.apache.spark.sql.catalyst.expressions.UnsafeArrayData"
_LITERAL_CLASS = "org.apache.spark.sql.catalyst.expressions.Literal"
_COLUMN_CLASS = "org.apache.spark.sql.classic.ExpressionUtils"
_TYPES_CLASS = "org.apache.spark.sql.types.DataTypes"
_STREAM = bytes.fromhex("aced0005")
_LONG_ARRAY = bytes.fromhex("75 72 0002 5b4a 782004b512b17593 02 0000 78 70")

Int64Array = npt.NDArray[np.int64]


def array_columns(session: Any, arrays: Sequence[Int64Array]) -> list[Any]:
    """For each of ``arrays``, a column of the JVM whose value in every row is that array, none of its numbers null."""
    if sum(numbers.nbytes for numbers in arrays) <= LITERAL_BYTES and not session.sparkContext._encryption_enabled:
        try:
            return _literals(session.sparkContext, arrays)
        except (Py4JError, PySparkException, TypeError):
            pass
    return [_subquery(session, numbers) for numbers in arrays]


def _literals(context: Any, arrays: Sequence[Int64Array]) -> list[Any]:
    """
    :raises Py4JError, PySparkException: a class of Spark's is another one
    :raises TypeError: a class of Spark's is not there
    """
    jvm = context._jvm
    array_data = jvm_static(jvm, ARRAY_CLASS, "fromPrimitiveArray")
    literal, column = jvm_class(jvm, _LITERAL_CLASS), jvm_static(jvm, _COLUMN_CLASS, "column")
    type_ = jvm_static(jvm, _TYPES_CLASS, "createArrayType")(jvm_static(jvm, _TYPES_CLASS, "LongType"), False)
    return [column(literal(array_data(longs), type_)) for longs in _jvm_arrays(context, arrays)]


def _jvm_arrays(context: Any, arrays: Sequence[Int64Array]) -> list[Any]:
    """Each of ``arrays`` as a ``long[]``."""
    open_file, open_objects = (jvm_class(context._jvm, f"java.io.{name}InputStream") for name in ("File", "Object"))
    with tempfile.NamedTemporaryFile(dir=context._temp_dir) as file:
        file.write(_STREAM)
        for numbers in arrays:
            file.write(_LONG_ARRAY + len(numbers).to_bytes(4, "big"))
            file.write(numbers.astype(">i8").tobytes())
        file.flush()
        stream = open_objects(open_file(file.name))
        try:
            return [stream.readObject() for _ in arrays]
        finally:
            stream.close()


def _subquery(session: Any, numbers: Int64Array) -> Any:
    """Spark finds the value on the driver, without a job."""
    array = pa.ListArray.from_arrays(pa.array(np.array([0, len(numbers)], np.int32)), pa.array(numbers))
    schema = spark.StructType([spark.StructField("numbers", spark.ArrayType(spark.LongType(), False), False)])
    return session.createDataFrame(pa.table({"numbers": array}), schema).scalar()._jc
