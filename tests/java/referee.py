"""Apache Paimon itself, the Java one, asked through py4j: what does it read, and what does it write?

Rows cross as Arrow streams (the bridge classes of ``org.apache.paimon.python`` do that), so a table comes back with
the very Arrow types this package uses: dates, decimals and timestamps need no conventions of their own. Rows with
kinds other than +I are handed to the writer one by one.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.java import jvm

COMPACT = ("none", "auto", "normal", "full")


@dataclass(frozen=True)
class JavaFile:
    """A data file as Java's planner sees it; ``deleted`` counts the rows its deletion vector hides."""

    partition: str
    bucket: int
    name: str
    level: int
    rows: int
    size: int
    schema_id: int
    min_sequence: int
    max_sequence: int
    raw_convertible: bool
    deleted: int


class JavaPaimon:
    """A JVM with Paimon's core. Start it once, use it for many tables, ``close`` it."""

    def __init__(self) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        port, token = launch_gateway(
            jarpath=str(jvm.py4j_jar()),
            classpath=jvm.class_path(),
            javaopts=["-Xmx2g", *jvm.QUICK_JVM, *jvm.JVM_FLAGS],
            java_path=str(jvm.java_home() / "bin" / "java"),
            die_on_exit=True,
            enable_auth=True,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._java = self._gateway.jvm
        self._paimon = self._java.org.apache.paimon
        self._files = self._paimon.fs.local.LocalFileIO.create()
        self._scratch = tempfile.TemporaryDirectory(prefix="paimon-java-")
        self._spill = self._paimon.disk.IOManager.create(self._scratch.name)

    def close(self) -> None:
        """End the JVM."""
        self._gateway.shutdown()
        self._scratch.cleanup()

    # ----------------------------------------------------------------------- tables

    def create(
        self,
        path: str | Path,
        columns: Mapping[str, Any],
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A new table at ``path``; ``columns`` maps each name to the JSON of its type, as in schema files."""
        builder = self._paimon.schema.Schema.newBuilder()
        for name, type_ in columns.items():
            builder = builder.column(name, self._type(type_))
        builder = builder.primaryKey(list(primary_keys)).partitionKeys(list(partition_keys))
        self._schemas(path).createTable(builder.options(dict(options or {})).build())

    def alter(self, path: str | Path, *changes: tuple[Any, ...]) -> None:
        """Change the schema: ``("addColumn", name, type)``, ``("renameColumn", name, to)``, ``("dropColumn", name)``,
        ``("updateColumnType", name, type)``, ``("setOption", key, value)`` or ``("removeOption", key)``."""
        change = self._paimon.schema.SchemaChange
        typed = ("addColumn", "updateColumnType")
        made = []
        for operation, *arguments in changes:
            if operation in typed:
                arguments = [arguments[0], self._type(arguments[1])]
            made.append(getattr(change, operation)(*arguments))
        self._schemas(path).commitChanges(made)

    def latest_snapshot(self, path: str | Path) -> int | None:
        """The newest snapshot's id."""
        found = self._table(path).snapshotManager().latestSnapshotId()
        return None if found is None else int(found)

    # ----------------------------------------------------------------------- reading

    def read(
        self,
        path: str | Path,
        snapshot: int | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """What a batch read returns, in Java's order: splits one after the other, sorted by key within a split."""
        table = self._table(path, _with_snapshot(options, snapshot))
        row_type = table.rowType()
        builder = self._paimon.python.InvocationUtil.getReadBuilder(table)
        if columns is not None:
            names = list(row_type.getFieldNames())
            positions = self._gateway.new_array(self._java.int, len(columns))
            for i, name in enumerate(columns):
                positions[i] = names.index(name)
            builder.withProjection(positions)
            row_type = builder.readType()
        reader = self._paimon.python.ParallelBytesReader(builder.newRead(), row_type, 1)
        reader.setSplits(builder.newScan().plan().splits())
        schema = _our_schema(self._arrow_schema(row_type))
        batches = [
            batch.cast(schema) for block in iter(reader.next, None) for batch in pa.ipc.open_stream(pa.py_buffer(block))
        ]
        return pa.Table.from_batches(batches, schema)

    def files(self, path: str | Path, snapshot: int | None = None) -> list[JavaFile]:
        """Every data file of a snapshot, level 0 included; deletion vectors as far as a batch read applies them."""
        table = self._table(path, _with_snapshot(None, snapshot))
        deleted, raw = self._split_facts(table)
        result = []
        for entry in table.store().newScan().plan().files():
            file = entry.file()
            name = file.fileName()
            result.append(
                JavaFile(
                    partition=self._partition_path(table, entry.partition()),
                    bucket=entry.bucket(),
                    name=name,
                    level=file.level(),
                    rows=file.rowCount(),
                    size=file.fileSize(),
                    schema_id=file.schemaId(),
                    min_sequence=file.minSequenceNumber(),
                    max_sequence=file.maxSequenceNumber(),
                    raw_convertible=raw.get(name, False),
                    deleted=deleted.get(name, 0),
                )
            )
        return result

    def _split_facts(self, table: Any) -> tuple[dict[str, int], dict[str, bool]]:
        vectors = table.store().newIndexFileHandler().deletionVectorsIndex()
        deleted, raw = {}, {}
        for split in self._paimon.python.InvocationUtil.getReadBuilder(table).newScan().plan().splits():
            names = [file.fileName() for file in split.dataFiles()]
            raw.update(dict.fromkeys(names, split.rawConvertible()))
            if split.deletionFiles().isPresent():
                for name, vector in zip(names, split.deletionFiles().get(), strict=True):
                    if vector is not None:
                        deleted[name] = int(vectors.readDeletionVector(vector).getCardinality())
        return deleted, raw

    def _partition_path(self, table: Any, partition: Any) -> str:
        return str(table.store().pathFactory().getPartitionString(partition))

    # ----------------------------------------------------------------------- writing

    def append(
        self,
        path: str | Path,
        data: pa.Table | Sequence[Mapping[str, Any]],
        kinds: Sequence[str] | None = None,
        compact: str = "none",
        options: Mapping[str, str] | None = None,
    ) -> int | None:
        """Write rows and commit; the newest snapshot's id afterwards.

        ``kinds``: one of +I, -U, +U, -D a row; all +I without it. ``compact``: ``none`` writes level 0 only, ``auto``
        does what Java's writer does by itself, ``normal`` and ``full`` also compact every bucket of the table.
        """
        table = self._table(path, _with_mode(options, compact))
        row_type = table.rowType()
        schema = self._arrow_schema(row_type)
        rows = data if isinstance(data, pa.Table) else pa.Table.from_pylist(list(data), _our_schema(schema))
        stream = _stream(rows.select(schema.names).cast(schema))

        def write(writer: Any) -> None:
            if kinds is None or all(kind == "+I" for kind in kinds):
                bulk = self._paimon.python.BytesWriter(writer, row_type)
                bulk.write(stream)
                bulk.close()
            else:
                self._write_kinds(writer, row_type, stream, kinds)

        return self._commit(path, table, write, compact)

    def compact(self, path: str | Path, full: bool = True, options: Mapping[str, str] | None = None) -> int | None:
        """Compact every bucket and commit; the newest snapshot's id afterwards."""
        mode = "full" if full else "normal"
        return self._commit(path, self._table(path, _with_mode(options, mode)), lambda writer: None, mode)

    def expire(self, path: str | Path, retain_min: int, retain_max: int, retain_millis: int = 0) -> int:
        """Expire snapshots, all that may go at once; their number."""
        duration = self._java.java.time.Duration.ofMillis(retain_millis)
        config = self._paimon.options.ExpireConfig.builder().snapshotTimeRetain(duration).snapshotMaxDeletes(1000)
        config = config.snapshotRetainMin(retain_min).snapshotRetainMax(retain_max).build()
        return int(self._table(path).newExpireSnapshots().config(config).expire())

    def tag(self, path: str | Path, name: str, snapshot: int) -> None:
        """Keep a snapshot under a name."""
        self._table(path).createTag(name, snapshot)

    def branch(self, path: str | Path, name: str, tag: str) -> None:
        """A branch that begins at a tag."""
        self._table(path).createBranch(name, tag)

    def _commit(self, path: str | Path, table: Any, write: Callable[[Any], None], compact: str) -> int | None:
        buckets = self._buckets(table) if compact in ("normal", "full") else []
        writer, commit = table.newWrite("java"), table.newCommit("java")
        try:
            writer.withIOManager(self._spill)
            write(writer)
            for partition, bucket in buckets:
                writer.compact(partition, bucket, compact == "full")
            identifier = 1 + (self.latest_snapshot(path) or 0)
            commit.commit(identifier, writer.prepareCommit(True, identifier))
        finally:
            writer.close()
            commit.close()
        return self.latest_snapshot(path)

    def _write_kinds(self, writer: Any, row_type: Any, stream: bytes, kinds: Sequence[str]) -> None:
        kind_of = {kind: self._paimon.types.RowKind.fromShortString(kind) for kind in set(kinds)}
        for kind, row in zip(kinds, self._rows(row_type, stream), strict=True):
            row.setRowKind(kind_of[kind])
            writer.write(row)

    def rows(self, row_type: Any, data: pa.Table) -> Iterator[Any]:
        """Rows as Java's ``InternalRow``, each valid until the next one."""
        return self._rows(row_type, _stream(data.cast(self._arrow_schema(row_type))))

    def _rows(self, row_type: Any, stream: bytes) -> Iterator[Any]:
        arrow = self._java.org.apache.arrow
        allocator = arrow.memory.RootAllocator()
        reader = arrow.vector.ipc.ArrowStreamReader(self._java.java.io.ByteArrayInputStream(stream), allocator)
        root = reader.getVectorSchemaRoot()
        while reader.loadNextBatch():
            rows = self._paimon.arrow.reader.ArrowBatchReader(row_type).readBatch(root).iterator()
            for _ in range(root.getRowCount()):
                yield rows.next()
        reader.close()
        allocator.close()

    def _buckets(self, table: Any) -> list[tuple[Any, int]]:
        found = {}
        for entry in table.store().newScan().plan().files():
            found[entry.partition().toString(), entry.bucket()] = (entry.partition(), entry.bucket())
        return list(found.values())

    # ----------------------------------------------------------------------- pieces

    def _path(self, path: str | Path) -> Any:
        return self._paimon.fs.Path(str(path))

    def _schemas(self, path: str | Path) -> Any:
        return self._paimon.schema.SchemaManager(self._files, self._path(path))

    def _table(self, path: str | Path, options: Mapping[str, str] | None = None) -> Any:
        table = self._paimon.table.FileStoreTableFactory.create(self._files, self._path(path))
        return table.copy(dict(options)) if options else table

    def _type(self, json_type: Any) -> Any:
        mapper = self._paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper()
        return self._paimon.types.DataTypeJsonParser.parseDataType(mapper.readTree(json.dumps(json_type)))

    def _arrow_schema(self, row_type: Any) -> pa.Schema:
        return pa.ipc.open_stream(self._paimon.python.SchemaUtil.getArrowSchema(row_type)).schema


def _with_snapshot(options: Mapping[str, str] | None, snapshot: int | None) -> dict[str, str]:
    pinned = {} if snapshot is None else {"scan.snapshot-id": str(snapshot)}
    return {**(options or {}), **pinned}


def _with_mode(options: Mapping[str, str] | None, compact: str) -> dict[str, str]:
    if compact not in COMPACT:
        raise ValueError(f"compact is one of {', '.join(COMPACT)}, not {compact!r}")
    return {**(options or {}), "write-only": "true" if compact == "none" else "false"}


def _stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _our_schema(schema: pa.Schema) -> pa.Schema:
    """``schema`` with Arrow's usual names for nested children, all of which are nullable in Java's bridge."""
    return pa.schema([pa.field(f.name, _our_type(f.type), f.nullable) for f in schema])


def _our_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", _our_type(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(_our_type(type_.key_type), _our_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _our_type(f.type)) for f in _children(type_)])
    return type_


def _children(struct: pa.DataType) -> Iterable[pa.Field]:
    return (struct.field(i) for i in range(struct.num_fields))
