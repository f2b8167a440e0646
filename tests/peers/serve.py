"""pypaimon behind a pipe: one JSON request a line in, one JSON answer a line out; tables travel as Arrow files.

Run by the interpreter of pypaimon's own environment, whose pyarrow is older than this package allows:
``.venv-pypaimon/bin/python tests/peers/serve.py``. Answers are ``{"ok": …}`` or ``{"error": type, "message": text}``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.table.file_store_table import FileStoreTable


def open_table(path: str, options: dict[str, str]) -> Any:
    """The table at ``path``: through a catalog when it lies at <warehouse>/<database>.db/<table>, else by its path."""
    place = Path(path)
    if place.parent.suffix == ".db":
        catalog = CatalogFactory.create({"warehouse": str(place.parent.parent)})
        table = catalog.get_table(f"{place.parent.stem}.{place.name}")
    else:
        table = FileStoreTable.from_path(path)
    return table.copy(options) if options else table


def create(path: str, schema_file: str, primary_keys: list[str], partition_keys: list[str], options: Any) -> None:
    """A new table with the Arrow schema of ``schema_file``."""
    with pa.ipc.open_file(schema_file) as file:
        schema = Schema.from_pyarrow_schema(file.schema, partition_keys, primary_keys, options)
    place = Path(path)
    if place.parent.suffix != ".db":
        raise ValueError(f"pypaimon creates tables at <warehouse>/<database>.db/<table> only, not at {path}")
    catalog = CatalogFactory.create({"warehouse": str(place.parent.parent)})
    catalog.create_database(place.parent.stem, True)
    catalog.create_table(f"{place.parent.stem}.{place.name}", schema, False)


def read(path: str, out: str, columns: list[str] | None, options: dict[str, str]) -> int:
    """Read the table into the Arrow file ``out``; the number of rows."""
    builder = open_table(path, options).new_read_builder()
    if columns is not None:
        builder = builder.with_projection(columns)
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return int(rows.num_rows)


def append(path: str, data: str, options: dict[str, str]) -> None:
    """Append the rows of the Arrow file ``data`` in one commit."""
    with pa.ipc.open_file(data) as file:
        rows = file.read_all()
    builder = open_table(path, options).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()


COMMANDS = {"create": create, "read": read, "append": append}


def main() -> None:
    """Answer requests until the pipe closes."""
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": COMMANDS[request.pop("command")](**request)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
