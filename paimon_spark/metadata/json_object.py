"""JsonObject: the JSON object of a metadata file, read with checks of every value's type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from paimon_spark.errors import CorruptFile, UnsupportedFeature
from paimon_spark.options import MB

SIZE_LIMIT = 64 * MB
_LONG = 2**63


@dataclass(frozen=True)
class JsonObject:
    """The keys and values of one file; ``path`` is what errors name. Keys nobody asks for are ignored.

    Every method raises CorruptFile when the value is missing or of another type.
    """

    path: str
    values: dict[str, Any]

    @staticmethod
    def parse(data: bytes, path: str) -> JsonObject:
        """The object that ``data`` is the UTF-8 JSON of.

        :raises CorruptFile: not JSON, nested too deeply, or no object
        """
        try:
            values = json.loads(data.decode("utf-8"))
        except RecursionError:
            raise CorruptFile(path, "its JSON is nested too deeply") from None
        except ValueError as problem:
            raise CorruptFile(path, f"not JSON: {problem}") from None
        if not isinstance(values, dict):
            raise CorruptFile(path, f"a JSON object is expected, not {type(values).__name__}")
        return JsonObject(path, values)

    def integer(self, key: str, default: int | None = None) -> int:
        """A 64-bit integer; ``default``, if given, stands for an absent or null one."""
        value = self.optional_integer(key)
        if value is not None:
            return value
        if default is None:
            raise CorruptFile(self.path, f"key {key!r} is missing")
        return default

    def optional_integer(self, key: str) -> int | None:
        """A 64-bit integer, or None when absent or null."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not -_LONG <= value < _LONG:
            raise self._wrong(key, "a 64-bit integer")
        return value

    def known_version(self, newest: int) -> int:
        """The format's version: the file's, 1 where it has none.

        :raises UnsupportedFeature: it is newer than ``newest``
        """
        version = self.integer("version", default=1)
        if version > newest:
            raise UnsupportedFeature(
                f"{self.path} has version {version} of its format, the newest that this package reads is {newest}; it "
                "was written by a later Paimon"
            )
        return version

    def text(self, key: str) -> str:
        """A string."""
        value = self.optional_text(key)
        if value is None:
            raise CorruptFile(self.path, f"key {key!r} is missing")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None when absent or null."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of strings."""
        value = self.array(key)
        if not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "an array of strings")
        return tuple(value)

    def array(self, key: str) -> list[Any]:
        """An array of anything."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "an array")
        return value

    def optional_mapping(self, key: str) -> dict[str, str] | None:
        """An object of strings, or None when absent or null. Numbers and booleans are taken as their text."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        if any(not isinstance(item, (str, int, float)) for item in value.values()):
            raise self._wrong(key, "an object of strings")
        return {name: item if isinstance(item, str) else json.dumps(item) for name, item in value.items()}

    def _wrong(self, key: str, expected: str) -> CorruptFile:
        found = "nothing" if key not in self.values else repr(self.values[key])[:80]
        return CorruptFile(self.path, f"key {key!r}: {expected} is expected, not {found}")


def to_json(values: dict[str, Any]) -> bytes:
    """The bytes of a metadata file: indented JSON in UTF-8, keys whose value is None left out."""
    present = {key: value for key, value in values.items() if value is not None}
    return json.dumps(present, indent=2, ensure_ascii=False).encode("utf-8")
