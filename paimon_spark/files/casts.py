"""Casts of column values whose type an ALTER TABLE changed after the file was written.

====================  =====================================================================================
from → to             meaning
====================  =====================================================================================
int, float → int      Java narrowing: whole numbers wrap; fractions are cut, then saturate, NaN is 0
number → float        nearest value
number → DECIMAL      rounded half up to the scale; null when it has too many digits
DECIMAL → int         fraction cut, then wrapped
number ↔ BOOLEAN      not 0; 1 or 0
any flat → string     Java's text; CHAR(n) padded with blanks, VARCHAR(n) cut to n characters
string → any flat     trimmed and parsed; a text that cannot be parsed is an error
string ↔ binary       UTF-8; BINARY(n) padded with zeros, VARBINARY(n) cut to n bytes
DATE, TIME → TIMESTAMP  midnight; on 1970-01-01
TIMESTAMP → DATE, TIME, shorter TIMESTAMP   the part that fits
TIMESTAMP ↔ INT, BIGINT  seconds since 1970-01-01
====================  =====================================================================================

Java reads TIMESTAMP WITH LOCAL TIME ZONE in the default zone of its JVM when it becomes local time. Here that zone is
UTC.

Source: ``org.apache.paimon.casting`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.arrays import strings
from paimon_spark.errors import InvalidInput, UnsupportedFeature
from paimon_spark.metadata.partition import java_floating
from paimon_spark.types import BINARIES, INTEGER_BITS, MAX_LENGTH, STRINGS, TIMESTAMPS, DataType, arrow_type

Cast = Callable[[pa.Array, DataType, DataType], pa.Array]

_DIGITS = 76
_SECOND_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TRUE = strings([b"t", b"true", b"y", b"yes", b"1"], pa.string())
_FALSE = strings([b"f", b"false", b"n", b"no", b"0"], pa.string())


def cast_values(array: pa.Array, source: DataType, target: DataType, column: str) -> pa.Array:
    """``array``, which holds values of ``source``, as ``target``; both are flat types.

    :raises UnsupportedFeature: no such cast
    :raises InvalidInput: a text that is not a value of ``target``
    """
    cast = _CASTS.get((_family(source), _family(target)))
    if cast is None:
        raise UnsupportedFeature(
            f"column {column}: its type was {source} when a file was written and is {target} now; this package does "
            "not convert between them. Rewrite the table by a compaction in Java first"
        )
    try:
        result = cast(array, source, target)
    except pa.ArrowInvalid as problem:
        raise InvalidInput(f"column {column}: a value of type {source} cannot become {target}: {problem}") from None
    assert result.type == arrow_type(target), (source, target, result.type)
    return result


def _family(type_: DataType) -> str:
    root = type_.root
    for family, roots in (
        ("int", INTEGER_BITS),
        ("string", STRINGS),
        ("binary", BINARIES),
        ("timestamp", TIMESTAMPS),
        ("float", ("FLOAT", "DOUBLE")),
    ):
        if root in roots:
            return family
    return root.lower()


# --------------------------------------------------------------------------- building blocks


def _values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a primitive array, 0 where null."""
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        array = array.cast(pa.int64())
    elif pa.types.is_time32(array.type) or pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))


def _array(values: npt.NDArray[Any], like: pa.Array, type_: pa.DataType) -> pa.Array:
    """``values`` as ``type_``, null where ``like`` is."""
    mask = np.asarray(like.is_null().to_numpy(zero_copy_only=False)) if like.null_count else None
    plain = pa.int64() if pa.types.is_timestamp(type_) else pa.int32() if pa.types.is_temporal(type_) else type_
    return pa.array(values, plain, mask=mask).cast(type_)


def _by_distinct(array: pa.Array, convert: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """``convert`` applied to each distinct value once."""
    encoded = array.dictionary_encode()
    converted = pa.array([convert(value.as_py()) for value in encoded.dictionary], type_)
    return converted.take(encoded.indices)


def _direct(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return array.cast(arrow_type(target), safe=False)


# --------------------------------------------------------------------------- numbers


def _float_to_int(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    values = np.nan_to_num(_values(array).astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    bits = 64 if target.root == "BIGINT" else 32
    limit = 2.0 ** (bits - 1)
    inside = np.where((values > -limit) & (values < limit), values, 0.0).astype(np.int64)
    whole = np.where(values >= limit, np.int64(2 ** (bits - 1) - 1), inside)
    whole = np.where(values <= -limit, np.int64(-(2 ** (bits - 1))), whole)
    numpy_type = np.dtype(f"int{INTEGER_BITS[target.root]}")
    return _array(whole.astype(numpy_type), array, arrow_type(target))


def _fit(array: pa.Array, target: DataType) -> pa.Array:
    """Decimals of 76 digits rounded half up to the target's scale; null where they have too many digits."""
    assert target.precision is not None
    assert target.scale is not None
    rounded = pc.round(array, ndigits=target.scale, round_mode="half_towards_infinity")
    limit = "1" + "0" * (target.precision - target.scale)
    bound = pa.scalar(limit).cast(pa.decimal256(_DIGITS, array.type.scale))
    fits = pc.less(pc.abs(rounded), bound)
    return pc.if_else(fits, rounded, pa.scalar(None, rounded.type)).cast(arrow_type(target))


def _int_to_decimal(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return _fit(array.cast(pa.int64()).cast(pa.decimal256(_DIGITS, target.scale)), target)


def _float_to_decimal(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """By the shortest decimal text of the double, as BigDecimal.valueOf does."""
    assert target.precision is not None
    assert target.scale is not None
    double = array.cast(pa.float64())
    size = pc.abs(double)
    representable = pc.less(size, 10.0 ** (target.precision - target.scale))
    tiny = pc.less(size, 10.0 ** -(target.scale + 1))
    kept = pc.if_else(representable, pc.if_else(tiny, 0.0, double), pa.scalar(None, pa.float64()))
    return _fit(kept.cast(pa.string()).cast(pa.decimal256(_DIGITS, target.scale + 18)), target)


def _decimal_to_decimal(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    assert source.scale is not None
    assert target.scale is not None
    return _fit(array.cast(pa.decimal256(_DIGITS, max(source.scale, target.scale))), target)


def _decimal_to_int(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    whole = pc.trunc(array.cast(pa.decimal256(_DIGITS, source.scale))).cast(pa.decimal128(38, 0))
    values = _low_words(whole).astype(np.dtype(f"int{INTEGER_BITS[target.root]}"))
    return _array(values, array, arrow_type(target))


def _low_words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The low 64 bits of each unscaled decimal128."""
    words = np.frombuffer(array.buffers()[1], np.int64)[::2]
    return words[array.offset : array.offset + len(array)]


def _decimal_to_float(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return array.cast(pa.string()).cast(arrow_type(target))


def _to_boolean(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return pc.not_equal(array, pa.scalar("0").cast(array.type))


def _boolean_to_decimal(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return _int_to_decimal(array.cast(pa.int8()), source, target)


# --------------------------------------------------------------------------- to and from text


def _shaped(texts: pa.Array, target: DataType) -> pa.Array:
    """Texts cut to VARCHAR(n), or cut and padded to CHAR(n)."""
    assert target.length is not None
    if target.length == MAX_LENGTH:
        return texts
    texts = pc.utf8_slice_codeunits(texts, 0, target.length)
    return pc.utf8_rpad(texts, width=target.length) if target.root == "CHAR" else texts


def _to_string(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return _shaped(array.cast(pa.string()), target)


def _decimal_to_string(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """All digits, never an exponent: the unscaled number as text, with a point set in."""
    assert source.scale is not None
    if source.scale == 0:
        return _to_string(array, source, target)
    digits = array.cast(pa.decimal128(source.precision, source.scale))
    unscaled = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(digits), digits.buffers(), digits.null_count, digits.offset
    ).cast(pa.string())
    negative = pc.starts_with(unscaled, "-")
    padded = pc.utf8_lpad(pc.utf8_ltrim(unscaled, "-"), width=source.scale + 1, padding="0")
    whole = pc.utf8_slice_codeunits(padded, 0, -source.scale)
    fraction = pc.utf8_slice_codeunits(padded, -source.scale)
    sign = pc.if_else(negative, "-", "")
    return _shaped(pc.binary_join_element_wise(pc.binary_join_element_wise(sign, whole, ""), fraction, "."), target)


def _float_to_string(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    precision = np.float32 if source.root == "FLOAT" else np.float64
    texts = _by_distinct(array, lambda v: None if v is None else java_floating(v, precision), pa.string())
    return _shaped(texts, target)


def _time_to_string(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    texts = array.cast(pa.string())
    return _shaped(_fraction_cut(texts, 3, source.precision or 0), target)


def _timestamp_to_string(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    unit = array.type.unit
    texts = array.cast(pa.timestamp(unit)).cast(pa.string())
    return _shaped(_fraction_cut(texts, _UNIT_DIGITS[unit], source.precision or 0), target)


def _fraction_cut(texts: pa.Array, digits: int, precision: int) -> pa.Array:
    """Texts that end in ``digits`` digits of a fraction, with ``precision`` of them."""
    surplus = max(digits - precision, 0) + (1 if precision == 0 and digits else 0)
    return pc.utf8_slice_codeunits(texts, 0, -surplus) if surplus else texts


def _parse(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return pc.utf8_trim_whitespace(array).cast(arrow_type(target))


def _parse_int(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    texts = pc.replace_substring_regex(pc.utf8_trim_whitespace(array), r"^\+", "")
    return texts.cast(arrow_type(target))


def _parse_decimal(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    return _fit(pc.utf8_trim_whitespace(array).cast(pa.decimal256(_DIGITS, 38)), target)


def _parse_boolean(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    texts = pc.ascii_lower(pc.utf8_trim_whitespace(array))
    true = pc.is_in(texts, value_set=_TRUE)
    unknown = pc.and_(pc.invert(pc.or_(true, pc.is_in(texts, value_set=_FALSE))), pc.is_valid(texts))
    if pc.any(unknown).as_py():
        raise pa.ArrowInvalid(f"{texts.filter(unknown)[0].as_py()!r} is not a boolean")
    return pc.if_else(pc.is_valid(texts), true, pa.scalar(None, pa.bool_()))


def _parse_time(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    day = pc.binary_join_element_wise("1970-01-01", pc.utf8_trim_whitespace(array), " ")
    return _timestamp_to_time(day.cast(pa.timestamp("ms")), source, target)


def _parse_timestamp(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    parsed = pc.utf8_trim_whitespace(array).cast(pa.timestamp("ns"))
    return _timestamp_to_timestamp(parsed, source, target)


def _binary_shaped(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Bytes cut to VARBINARY(n), or cut and padded with zeros to BINARY(n)."""
    length = target.length
    assert length is not None
    array = array.cast(pa.binary())
    if length == MAX_LENGTH:
        return array
    array = pc.binary_slice(array, 0, length)
    if target.root == "VARBINARY":
        return array
    return _by_distinct(array, lambda v: None if v is None else v.ljust(length, b"\0"), pa.binary())


# --------------------------------------------------------------------------- dates and times


def _timestamp_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Digits that the target lacks are cut: downwards to whole milliseconds, from there towards zero."""
    unit, precision = array.type.unit, target.precision or 0
    values = _values(array)
    surplus = _UNIT_DIGITS[unit] - max(precision, 3)
    if surplus > 0:
        values = values // 10**surplus * 10**surplus
    if precision < 3:
        step = _SECOND_UNITS[unit] // 10**precision
        values = _fix(values, step)
    out = arrow_type(target)
    return _array(values, array, pa.timestamp(unit)).cast(pa.timestamp(out.unit)).cast(out)


def _fix(values: npt.NDArray[Any], step: int) -> npt.NDArray[Any]:
    """``values`` cut to multiples of ``step``, towards zero."""
    cut: npt.NDArray[Any] = np.sign(values) * (np.abs(values) // step * step)
    return cut


def _timestamp_to_date(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    per_day = 86_400 * _SECOND_UNITS[array.type.unit]
    return _array((_values(array) // per_day).astype(np.int32), array, pa.date32())


def _timestamp_to_time(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    per_day = 86_400 * _SECOND_UNITS[array.type.unit]
    millis = _values(array) % per_day * 1000 // _SECOND_UNITS[array.type.unit]
    return _array(millis.astype(np.int32), array, pa.time32("ms"))


def _date_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    out = arrow_type(target)
    return array.cast(pa.timestamp("s")).cast(pa.timestamp(out.unit)).cast(out)


def _time_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    out = arrow_type(target)
    return array.cast(pa.int32()).cast(pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp(out.unit)).cast(out)


def _timestamp_to_int(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    seconds = _fix(_values(array), _SECOND_UNITS[array.type.unit]) // _SECOND_UNITS[array.type.unit]
    return _array(seconds.astype(np.dtype(f"int{INTEGER_BITS[target.root]}")), array, arrow_type(target))


def _int_to_timestamp(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    out = arrow_type(target)
    return array.cast(pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(out.unit)).cast(out)


_CASTS: dict[tuple[str, str], Cast] = {
    ("int", "int"): _direct,
    ("int", "float"): _direct,
    ("float", "float"): _direct,
    ("float", "int"): _float_to_int,
    ("int", "decimal"): _int_to_decimal,
    ("float", "decimal"): _float_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "int"): _decimal_to_int,
    ("decimal", "float"): _decimal_to_float,
    ("int", "boolean"): _to_boolean,
    ("float", "boolean"): _to_boolean,
    ("decimal", "boolean"): _to_boolean,
    ("boolean", "int"): _direct,
    ("boolean", "float"): _direct,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("int", "string"): _to_string,
    ("boolean", "string"): _to_string,
    ("date", "string"): _to_string,
    ("string", "string"): _to_string,
    ("binary", "string"): _to_string,
    ("decimal", "string"): _decimal_to_string,
    ("float", "string"): _float_to_string,
    ("time", "string"): _time_to_string,
    ("timestamp", "string"): _timestamp_to_string,
    ("string", "int"): _parse_int,
    ("string", "float"): _parse,
    ("string", "date"): _parse,
    ("string", "decimal"): _parse_decimal,
    ("string", "boolean"): _parse_boolean,
    ("string", "time"): _parse_time,
    ("string", "timestamp"): _parse_timestamp,
    ("string", "binary"): _binary_shaped,
    ("binary", "binary"): _binary_shaped,
    ("date", "timestamp"): _date_to_timestamp,
    ("time", "timestamp"): _time_to_timestamp,
    ("time", "time"): _direct,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "time"): _timestamp_to_time,
    ("timestamp", "int"): _timestamp_to_int,
    ("int", "timestamp"): _int_to_timestamp,
}
