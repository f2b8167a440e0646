"""The directory of a partition: ``<key>=<value>`` for each partition column, joined by slashes.

A value's text is, under ``partition.legacy-name`` (the default), what Java's ``toString`` makes of Paimon's internal
value: a DATE is its number of days, a TIME its milliseconds, a timestamp ``2024-01-01T10:30``. Otherwise it is the
value cast to a string. Null, empty and blank texts all become ``partition.default-name``; the manifest still tells
them apart. Directory names are therefore made from values, and never read back.

Source: ``PartitionPathUtils``, ``InternalRowPartitionComputer``, ``DateTimeUtils`` of Apache Paimon, and
``Double.toString``, ``LocalDateTime.toString``, ``Character.isWhitespace`` of Java.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.options import PARTITION_DEFAULT_NAME, PARTITION_LEGACY_NAME, Options
from paimon_spark.types import DataField, DataType

_ESCAPED = {*map(chr, range(0x20)), *"\"#%'*/:=?\\\x7f{}[]^"}
_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in _ESCAPED})
_NOT_BLANK_IN_JAVA = "\u0085\u00a0\u2007\u202f"
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_SECONDS = 86_400


def partition_path(values: Sequence[pa.Scalar], fields: Sequence[DataField], options: Options) -> str:
    """The directory of a partition below the table's, without slashes around it; empty without fields.

    ``values`` are the partition columns' values, of the Arrow types that the types of ``fields`` have.

    :raises UnsupportedFeature: a column's type has no usable name
    """
    default = options.get_option(PARTITION_DEFAULT_NAME)
    texts = _LEGACY_TEXTS if options.get_option(PARTITION_LEGACY_NAME) else _TEXTS
    parts = []
    for value, field in zip(values, fields, strict=True):
        text = _value_text(value, field, texts) if value.is_valid else ""
        parts.append(f"{escape(field.name)}={escape(default if _is_blank(text) else text)}")
    return "/".join(parts)


def escape(text: str) -> str:
    """``text`` with the characters that a path must not hold as ``%`` and two hex digits, as Hive and Java do."""
    return text.translate(_ESCAPES)


Text = Callable[[pa.Scalar, DataType], str]


def _value_text(value: pa.Scalar, field: DataField, texts: dict[str, Text]) -> str:
    if field.type.root not in texts:
        raise UnsupportedFeature(
            f"partition column {field.name!r} has type {field.type}, whose values have no directory name "
            f"under option {PARTITION_LEGACY_NAME.key!r} = {texts is _LEGACY_TEXTS}"
        )
    try:
        return texts[field.type.root](value, field.type)
    except UnicodeDecodeError as problem:
        raise CorruptFile(f"<partition column {field.name}>", f"a value is not UTF-8: {problem}") from None


def _is_blank(text: str) -> bool:
    return all(char.isspace() and char not in _NOT_BLANK_IN_JAVA for char in text)


def _string(value: pa.Scalar, _: DataType) -> str:
    return str(value.as_py())


def _boolean(value: pa.Scalar, _: DataType) -> str:
    return "true" if value.as_py() else "false"


def _internal_integer(value: pa.Scalar, _: DataType) -> str:
    return str(value.value)


def _decimal(value: pa.Scalar, _: DataType) -> str:
    return format(value.as_py(), "f")


def _binary(value: pa.Scalar, _: DataType) -> str:
    return bytes(value.as_py()).decode("utf-8")


# --------------------------------------------------------------------------- Floating point


def _floating(value: pa.Scalar, _: DataType) -> str:
    return java_floating(value.as_py(), np.float32 if pa.types.is_float32(value.type) else np.float64)


def java_floating(value: float, precision: type[np.floating]) -> str:
    """``Double.toString`` (or ``Float.toString``): the fewest digits that tell the number from its neighbours, as
    ``123.45`` from 1e-3 up to 1e7 and as ``1.2345E10`` outside, with at least one digit after the point."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    magnitude = abs(value)
    mantissa, exponent_text = np.format_float_scientific(precision(magnitude), trim="-").split("e")
    if "." not in mantissa:  # Java wants two digits, and of those the nearest: 4.9E-324, not 5.0E-324
        mantissa, exponent_text = f"{magnitude:.1e}".split("e")
    digits, exponent = mantissa.replace(".", ""), int(exponent_text)
    if not 1e-3 <= magnitude < 1e7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits.rstrip('0')}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}"


# --------------------------------------------------------------------------- Dates and times


def _local_date_time(value: pa.Scalar, _: DataType) -> str:
    """``LocalDateTime.toString``: seconds only when not zero, fractions in groups of three digits."""
    day, second, nanos = _split_timestamp(value)
    text = f"{_date_text(day)}T{second // 3600:02d}:{second // 60 % 60:02d}"
    if second % 60 or nanos:
        text += f":{second % 60:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        text += "." + (fraction[:3] if nanos % 10**6 == 0 else fraction[:6] if nanos % 10**3 == 0 else fraction)
    return text


def _sql_timestamp(value: pa.Scalar, type_: DataType) -> str:
    """``2024-01-01 00:00:00.120``: as many digits of the fraction as the type has, more only when they are not 0."""
    offset = 0
    if type_.root == "TIMESTAMP_LTZ":
        offset = time.localtime(value.value // _UNITS_PER_SECOND[value.type.unit]).tm_gmtoff
    day, second, nanos = _split_timestamp(value, offset)
    fraction = f"{nanos:09d}"
    kept = fraction[: type_.precision] + fraction[type_.precision :].rstrip("0")
    text = f"{_date_text(day)} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{text}.{kept}" if kept else text


def _split_timestamp(value: pa.Scalar, offset: int = 0) -> tuple[int, int, int]:
    """Days since the epoch, second of the day and nanosecond of the second, shifted by ``offset`` seconds."""
    per_second = _UNITS_PER_SECOND[value.type.unit]
    seconds, rest = divmod(value.value, per_second)
    day, second = divmod(seconds + offset, _DAY_SECONDS)
    return day, second, rest * (10**9 // per_second)


def _sql_date(value: pa.Scalar, _: DataType) -> str:
    return _date_text(value.value)


def _sql_time(value: pa.Scalar, type_: DataType) -> str:
    """``10:30:00``, with a fraction that ends before its trailing zeros and is cut to the type's precision."""
    second, millis = divmod(value.value, 1000)
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    if not type_.precision:
        return text
    fraction = f"{millis:03d}".rstrip("0")[: type_.precision]
    return f"{text}.{fraction or '0'}"


def _date_text(day: int) -> str:
    """``LocalDate.toString`` of a day since 1970-01-01, in the Gregorian calendar of all times."""
    era, day_of_era = divmod(day + 719_468, 146_097)  # eras of 400 years that begin on March 1
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    month = (month_from_march + 2) % 12 + 1
    year = era * 400 + year_of_era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day_of_year - (153 * month_from_march + 2) // 5 + 1:02d}"


_COMMON: dict[str, Text] = {
    **dict.fromkeys(("CHAR", "VARCHAR", "TINYINT", "SMALLINT", "INT", "BIGINT"), _string),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _floating),
    "BOOLEAN": _boolean,
    "DECIMAL": _decimal,
}
_LEGACY_TEXTS: dict[str, Text] = {
    **_COMMON,
    "DATE": _internal_integer,
    "TIME": _internal_integer,
    "TIMESTAMP": _local_date_time,
    "TIMESTAMP_LTZ": _local_date_time,
}
_TEXTS: dict[str, Text] = {
    **_COMMON,
    "DATE": _sql_date,
    "TIME": _sql_time,
    "TIMESTAMP": _sql_timestamp,
    "TIMESTAMP_LTZ": _sql_timestamp,
    "BINARY": _binary,
    "VARBINARY": _binary,
}
