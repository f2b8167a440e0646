"""Java's compact row serializer, driven through py4j."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.types import DataField, DataType, type_to_json
from tests.java.referee import JavaPaimon


class JavaRows:
    """Rows of ``fields``, which must be nullable, as Java serializes and reads them. They come and go as Arrow, which
    Java's bridge does without multisets: there these are maps."""

    def __init__(self, java: JavaPaimon, fields: Sequence[DataField]) -> None:
        self._java = java
        self._columns = {field.name: type_to_json(_without_multisets(field.type)) for field in fields}
        names = list(self._columns)
        self._type = self._row_type(names, list(self._columns.values()))
        own = self._row_type(names, [type_to_json(field.type) for field in fields])
        self._serializer = java._paimon.data.serializer.RowCompactedSerializer(own)

    def _row_type(self, names: Sequence[str], json: Sequence[Any]) -> Any:
        java = self._java
        types = java._gateway.new_array(java._paimon.types.DataType, len(names))
        texts = java._gateway.new_array(java._java.java.lang.String, len(names))
        for i, name in enumerate(names):
            texts[i], types[i] = name, java._type(json[i])
        return java._paimon.types.RowType.of(types, texts)

    def serialized(self, table: pa.Table) -> list[bytes]:
        """The compact row of each row of a table."""
        return [bytes(self._serializer.serializeToBytes(row)) for row in self._java.rows(self._type, table)]

    def write(self, rows: Sequence[bytes], path: Path, key: str) -> None:
        """Java reads compact rows and writes what they say to a new table at ``path`` with that primary key."""
        self._java.create(path, self._columns, [key], options={"bucket": "1"})

        def write(writer: Any) -> None:
            for row in rows:
                writer.write(self._serializer.deserialize(row))

        self._java._commit(path, self._java._table(path), write, "none")


def _without_multisets(type_: DataType) -> DataType:
    """``type_`` with every multiset as the map that it is in Arrow."""
    key, element = type_.key, type_.element and _without_multisets(type_.element)
    if type_.root == "MULTISET":
        return DataType("MAP", type_.nullable, key=element, element=DataType("INT", nullable=False))
    fields = tuple(replace(field, type=_without_multisets(field.type)) for field in type_.fields)
    return replace(type_, key=key and _without_multisets(key), element=element, fields=fields)
