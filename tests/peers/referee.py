"""pypaimon, the other Python implementation, as a referee in its own environment and process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

REPO = Path(__file__).resolve().parents[2]
INTERPRETER = REPO / ".venv-pypaimon" / "bin" / "python"


class PypaimonError(Exception):
    """pypaimon raised an error; the text is its type and message."""


class Pypaimon:
    """A process that runs pypaimon 2.1. Tables should lie at ``<warehouse>/<database>.db/<table>``."""

    def __init__(self) -> None:
        if not INTERPRETER.exists():
            raise RuntimeError(f"{INTERPRETER} is missing: run `make test`, which makes that environment")
        self._scratch = tempfile.TemporaryDirectory(prefix="pypaimon-")
        self._log = open(Path(self._scratch.name) / "stderr", "w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [INTERPRETER, str(Path(__file__).with_name("serve.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._log.close()
        self._scratch.cleanup()

    def create(
        self,
        path: str | Path,
        schema: pa.Schema,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A new table; key columns must be declared not nullable in ``schema``."""
        self._ask(
            "create",
            path=str(path),
            schema_file=self._save(schema.empty_table()),
            primary_keys=list(primary_keys),
            partition_keys=list(partition_keys),
            options=dict(options or {}),
        )

    def read(
        self, path: str | Path, columns: Sequence[str] | None = None, options: Mapping[str, str] | None = None
    ) -> pa.Table:
        """What pypaimon reads; ``options`` are dynamic table options such as ``scan.snapshot-id``."""
        out = self._file()
        chosen = None if columns is None else list(columns)
        self._ask("read", path=str(path), out=out, columns=chosen, options=dict(options or {}))
        with pa.ipc.open_file(out) as file:
            return file.read_all()

    def append(self, path: str | Path, data: pa.Table, options: Mapping[str, str] | None = None) -> None:
        """Append ``data``, which has every column of the table, in one commit."""
        self._ask("append", path=str(path), data=self._save(data), options=dict(options or {}))

    def _file(self) -> str:
        return str(Path(self._scratch.name) / "table.arrow")

    def _save(self, table: pa.Table) -> str:
        path = self._file()
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return path

    def _ask(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"command": command, **arguments}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise PypaimonError(f"the process of pypaimon ended: {self._log.read()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PypaimonError(f"{answer['error']}: {answer['message']}")
        return answer["ok"]
