"""A large array of numbers as a column of Spark's, for conditions that look numbers up in it.

It is a literal, which no plan shows but by the name of its class, and which costs Spark neither a relation nor adaptive
execution. Spark has no public way to make one of an array that it does not print, element by element. So this goes
through its own classes, and where they are not as they are known to be, the array is the value of a scalar subquery
instead, which takes tens of milliseconds more. Large arrays always are: Spark hashes a literal several times a query.
So is every array where Spark is to encrypt what it puts on local disks (``spark.io.encryption.enabled``).

The numbers reach the JVM in a file, as Java serializes a ``long[]``; all numbers big-endian::

    23 bytes    the class, "[J"
    32 bits     n, how many numbers
    n x 64 bits
"""

from __future__ import annotations

import tempfile
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
_LONG_ARRAY = bytes.fromhex("aced0005 75 72 0002 5b4a 782004b512b17593 02 0000 78 70")

Int64Array = npt.NDArray[np.int64]


def array_column(session: Any, numbers: Int64Array) -> Any:
    """A column of the JVM whose value in every row is the array ``numbers``, none of them null."""
    if numbers.nbytes > LITERAL_BYTES or session.sparkContext._encryption_enabled:
        return _subquery(session, numbers)
    try:
        return _literal(session.sparkContext, numbers)
    except (Py4JError, PySparkException, TypeError):
        return _subquery(session, numbers)


def _literal(context: Any, numbers: Int64Array) -> Any:
    """
    :raises Py4JError, PySparkException: a class of Spark's is another one
    :raises TypeError: a class of Spark's is not there
    """
    jvm = context._jvm
    array_data = jvm_static(jvm, ARRAY_CLASS, "fromPrimitiveArray")(_jvm_array(context, numbers))
    type_ = jvm_static(jvm, _TYPES_CLASS, "createArrayType")(jvm_static(jvm, _TYPES_CLASS, "LongType"), False)
    return jvm_static(jvm, _COLUMN_CLASS, "column")(jvm_class(jvm, _LITERAL_CLASS)(array_data, type_))


def _jvm_array(context: Any, numbers: Int64Array) -> Any:
    """``numbers`` as a ``long[]``."""
    open_file, open_objects = (jvm_class(context._jvm, f"java.io.{name}InputStream") for name in ("File", "Object"))
    with tempfile.NamedTemporaryFile(dir=context._temp_dir) as file:
        file.write(_LONG_ARRAY + len(numbers).to_bytes(4, "big"))
        file.write(numbers.astype(">i8").tobytes())
        file.flush()
        stream = open_objects(open_file(file.name))
        try:
            return stream.readObject()
        finally:
            stream.close()


def _subquery(session: Any, numbers: Int64Array) -> Any:
    """Spark finds the value on the driver, without a job."""
    array = pa.ListArray.from_arrays(pa.array(np.array([0, len(numbers)], np.int32)), pa.array(numbers))
    schema = spark.StructType([spark.StructField("numbers", spark.ArrayType(spark.LongType(), False), False)])
    return session.createDataFrame(pa.table({"numbers": array}), schema).scalar()._jc
