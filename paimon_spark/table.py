"""PaimonTable: create, open, write, read and inspect a primary-key table, without Spark.

Rooms that few calls need (check, compact, orphans) are imported by those calls, so that a Spark worker, which pays
for every import, pays for none of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_spark.errors import InvalidInput, InvalidOption, NotFound
from paimon_spark.metadata.live_files import live_files
from paimon_spark.metadata.partition_specification import check_partition
from paimon_spark.metadata.schema import TableSchema, new_table_schema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.time_travel import is_time_travel, travel
from paimon_spark.metadata.unsupported import check_immutable, refuse_unsupported
from paimon_spark.metadata.validation import validate_new_table
from paimon_spark.options import DYNAMIC_PARTITION_OVERWRITE, Options
from paimon_spark.read.files_table import files_table
from paimon_spark.read.scan import Scan
from paimon_spark.storage.credentials import table_options
from paimon_spark.storage.locate import locate
from paimon_spark.types import arrow_schema, fields_from_arrow
from paimon_spark.write.overwrite import Overwrite
from paimon_spark.write.table_write import TableWrite

if TYPE_CHECKING:
    from paimon_spark.check.breach import Breach
    from paimon_spark.compact.compaction import Compactor


class PaimonTable:
    """One table directory.

    Every call looks at the table anew: two calls may see different snapshots, one call sees a single one. Objects
    hold no open files and travel between processes.
    """

    def __init__(self, metadata: TableMetadata, table_schema: TableSchema, dynamic_options: Mapping[str, str]) -> None:
        self._metadata = metadata
        self._stored = table_schema
        self._dynamic = dict(dynamic_options)

    # ------------------------------------------------------------------ make and find

    @classmethod
    def create(
        cls,
        path: str,
        schema: pa.Schema,
        primary_keys: Sequence[str],
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> PaimonTable:
        """A new table at ``path``, with Paimon's types for the Arrow ``schema``.

        Without the option ``bucket`` the table gets one bucket a partition. Options of the storage, such as its
        credentials (see :mod:`paimon_spark.storage.credentials`), are not kept with the table.

        :raises InvalidInput: there is a table at ``path`` already, or the definition contradicts itself
        :raises UnsupportedFeature: the definition needs a feature that this package does not write
        """
        fields, highest = fields_from_arrow(schema)
        definition = new_table_schema(
            fields,
            highest,
            tuple(primary_keys),
            tuple(partition_keys),
            table_options(options or {}),
            comment,
            _now_millis(),
        )
        validate_new_table(definition)
        refuse_unsupported(definition, for_write=True)
        metadata = _metadata(path, options or {})
        if metadata.schemas.latest() is not None or not metadata.schemas.create(definition):
            raise InvalidInput(f"there is a Paimon table at {path} already")
        return cls(metadata, definition, {})

    @classmethod
    def open(cls, path: str, options: Mapping[str, str] | None = None) -> PaimonTable:
        """The table at ``path``; ``options`` hold for this object only and go before the table's own.

        :raises NotFound: there is no table
        :raises InvalidOption: an option that the table cannot change differs from the table's
        """
        metadata = _metadata(path, options or {})
        schema = metadata.schemas.latest()
        if schema is None:
            raise NotFound(f"there is no Paimon table at {path}")
        dynamic = table_options(options or {})
        check_immutable(schema, dynamic)
        return cls(metadata.reaching(schema, options or {}), schema, dynamic)

    @classmethod
    def exists(cls, path: str, options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a table at ``path``."""
        return _metadata(path, options or {}).schemas.latest() is not None

    # ------------------------------------------------------------------ look

    @property
    def path(self) -> str:
        """The table's directory."""
        return self._metadata.paths.root

    @property
    def metadata(self) -> TableMetadata:
        """The stores of the table's schemas, snapshots, manifests and indexes."""
        return self._metadata

    @property
    def table_schema(self) -> TableSchema:
        """The newest schema, with this object's options over the table's."""
        return self._stored.with_options(self._stored.options.merged(self._dynamic))

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow fields."""
        return arrow_schema(self._stored.fields)

    @property
    def options(self) -> Options:
        """The table's options, with this object's over them."""
        return self.table_schema.options

    def snapshot(self, id: int | None = None) -> Snapshot | None:
        """The snapshot of that id, or the newest one; None while the table has none.

        :raises NotFound: that snapshot has expired or never was
        """
        return self._metadata.snapshots.latest() if id is None else self._metadata.snapshots.get(id)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, oldest first."""
        return [self._metadata.snapshots.get(id_) for id_ in self._metadata.snapshots.ids()]

    def files(self, options: Mapping[str, str] | None = None) -> pa.Table:
        """One row a live data file of the snapshot that ``options`` select (the newest, by default).

        Columns: partition, bucket, file_path, level, record_count, delete_row_count, file_size_in_bytes, min_key,
        max_key (JSON of the trimmed primary key), min_sequence_number, max_sequence_number, schema_id, source,
        creation_time.
        """
        schema, snapshot = self._travel(options)
        entries = [] if snapshot is None else live_files(self._metadata, snapshot)
        return files_table(self._metadata, schema, entries)

    def levels(self, options: Mapping[str, str] | None = None) -> pa.Table:
        """The shape of each bucket at the snapshot that ``options`` select: one row a partition, bucket and level.

        Columns: partition, bucket, level, files, rows (physical), deleted_rows (masked by deletion vectors), bytes,
        min_key, max_key (JSON of the trimmed primary key).
        """
        from paimon_spark.check.shape import bucket_levels

        schema, snapshot = self._travel(options)
        return bucket_levels(self._metadata, schema, snapshot)

    def check(self, snapshot: int | None = None, *, all_snapshots: bool = False, deep: bool = True) -> list[Breach]:
        """Every broken invariant of the table; none when it is sound. See
        :func:`paimon_spark.check.table_check.check_table`, which says what is checked and raised."""
        from paimon_spark.check.table_check import check_table

        return check_table(self._metadata, snapshot=snapshot, all_snapshots=all_snapshots, deep=deep)

    # ------------------------------------------------------------------ read

    def scan(
        self, columns: Sequence[str] | None = None, filters: Any = None, options: Mapping[str, str] | None = None
    ) -> Scan:
        """A read pinned to one snapshot; see :class:`paimon_spark.read.scan.Scan`.

        :raises UnsupportedFeature: the table uses a feature that this package does not read
        """
        schema, snapshot = self._travel(options)
        refuse_unsupported(schema, for_write=False)
        return Scan.of(self._metadata, schema, snapshot, columns, filters)

    def read(
        self, columns: Sequence[str] | None = None, filters: Any = None, options: Mapping[str, str] | None = None
    ) -> pa.Table:
        """The rows that satisfy ``filters``, in no particular order; ``columns`` in the order given.

        ``filters`` are (column, operator, value) tuples as in :mod:`paimon_spark.predicate`; ``options`` may time
        travel (``scan.snapshot-id``, ``scan.timestamp-millis``, ``scan.tag-name``, ``scan.version``).
        """
        scan = self.scan(columns, filters, options)
        return pa.Table.from_batches(scan.batches(), schema=scan.schema)

    def read_batches(
        self, columns: Sequence[str] | None = None, filters: Any = None, options: Mapping[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`read`, a batch at a time in bounded memory."""
        return self.scan(columns, filters, options).batches()

    def _travel(self, options: Mapping[str, str] | None) -> tuple[TableSchema, Snapshot | None]:
        """The snapshot that the options select, and its schema: time travel shows the columns of that time."""
        of_this_call = table_options(options or {})
        chosen = self._stored.options.merged(self._dynamic).merged(of_this_call)
        check_immutable(self._stored, of_this_call)
        snapshot = travel(self._metadata.snapshots, chosen)
        schema = self._stored
        if snapshot is not None and is_time_travel(chosen):
            schema = self._metadata.schemas.get(snapshot.schema_id)
        return schema.with_options(chosen), snapshot

    # ------------------------------------------------------------------ write

    def append(self, data: pa.Table | pa.RecordBatch) -> Snapshot | None:
        """Upsert rows: newer versions of the keys they have. Columns left out are null.

        :returns: the new snapshot, or None when there was nothing to write
        :raises InvalidInput: the data does not fit the table; nothing was written
        :raises CommitConflict: another commit stood in the way; nothing is visible
        :raises CommitStateUnknown: the storage never said whether the commit took place
        """
        return self._write(data, self.new_write())

    def overwrite(
        self,
        data: pa.Table | pa.RecordBatch,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
    ) -> Snapshot | None:
        """Replace partitions by rows; see :meth:`new_write`. Raises as :meth:`append`."""
        return self._write(data, self.new_write(overwrite=True, partition=partition, dynamic=dynamic))

    def new_write(
        self, overwrite: bool = False, partition: Mapping[str, Any] | None = None, dynamic: bool | None = None
    ) -> TableWrite:
        """A write whose tasks may run in several processes; see :mod:`paimon_spark.write.table_write`.

        An overwrite replaces the partitions of the new rows when it is ``dynamic`` (None: the table's option
        ``dynamic-partition-overwrite``, which is true by default; never with ``partition``), else all partitions
        that match ``partition``: the whole table, when that is empty.

        :raises UnsupportedFeature: the table uses a feature that this package does not write
        """
        schema = self.table_schema
        refuse_unsupported(schema, for_write=True)
        if is_time_travel(schema.options):
            raise InvalidOption("a write cannot travel in time; leave the scan.* options out")
        if not overwrite:
            return TableWrite.begin(self._metadata, schema)
        check_partition(schema, partition or {})
        if dynamic is None:
            dynamic = not partition and schema.options.get_option(DYNAMIC_PARTITION_OVERWRITE)
        if dynamic and partition:
            raise InvalidInput("a dynamic overwrite finds its partitions in the data; leave 'partition' out")
        return TableWrite.begin(self._metadata, schema, Overwrite(dynamic, dict(partition or {})))

    # ------------------------------------------------------------------ compact

    def compact(
        self,
        full: bool = False,
        partitions: Sequence[Mapping[str, Any]] | None = None,
        compactor: Compactor | None = None,
        user: str | None = None,
    ) -> Snapshot | None:
        """Merge files where the table's options want it, and empty level 0 of a table with deletion vectors.

        ``full`` leaves each bucket one sorted run without deleted rows. ``partitions`` restricts the work to the
        partitions that one of these specifications, such as ``{"day": "2024-01-31"}``, covers. A table that is
        ``write-only`` can be compacted, too. Writers may go on meanwhile. ``compactor`` does the work (None: this
        process, a bucket after the other), and ``user`` commits (None: somebody new).

        :returns: the new snapshot, or None when there was nothing to do
        :raises InvalidInput: a specification that does not fit the table
        :raises UnsupportedFeature: the table uses a feature that this package does not write
        :raises CommitConflict: other compactions were faster, again and again; nothing is visible
        :raises CommitStateUnknown: the storage never said whether the commit took place
        """
        from paimon_spark.compact.compaction import compact_table

        schema = self.table_schema
        refuse_unsupported(schema, for_write=True)
        if is_time_travel(schema.options):
            raise InvalidOption("a compaction cannot travel in time; leave the scan.* options out")
        return compact_table(self._metadata, schema, full=full, partitions=partitions, compactor=compactor, user=user)

    # ------------------------------------------------------------------ clean up

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | None = None,
        max_deletes: int | None = None,
    ) -> int:
        """Expire the oldest snapshots, and delete the files that only they use; the number of them.

        ``retain_min`` to ``retain_max`` snapshots stay; between the two those that were superseded less than
        ``older_than`` ago; at most ``max_deletes`` go. What is left out is as the options ``snapshot.num-retained.min``
        and ``.max``, ``snapshot.time-retained`` and ``snapshot.expire.limit`` say. What tags, branches and consumers
        need stays. Commits do the same by themselves, unless the table is ``write-only``. See
        :mod:`paimon_spark.metadata.expiration`.

        :raises InvalidInput: numbers that make no sense
        :raises UnsupportedFeature: the table's changelogs are to outlive its snapshots
        :raises PaimonError: something cannot be read or deleted; what expired until then stays expired
        """
        from paimon_spark.metadata.expiration import expire_snapshots
        from paimon_spark.metadata.retention import Retention

        schema = self.table_schema
        given = {"minimum": retain_min, "maximum": retain_max, "limit": max_deletes}
        changes = {name: value for name, value in given.items() if value is not None}
        if older_than is not None:
            if older_than < timedelta(0):
                raise InvalidInput(f"older_than = {older_than}: an age is expected")
            changes["millis"] = older_than // timedelta(milliseconds=1)
        retention = replace(Retention.of(schema.options), **changes)
        return expire_snapshots(self._metadata, schema, retention, _now_millis())

    def remove_orphan_files(self, older_than: timedelta = timedelta(days=1), dry_run: bool = False) -> list[str]:
        """Delete files that nothing refers to, left by writers that were killed; their paths, sorted.

        Only files last changed more than ``older_than`` ago count: a write that is still under way has files that no
        snapshot names yet, so this must be longer than any write takes. ``dry_run`` deletes nothing. See
        :mod:`paimon_spark.metadata.orphans` for what is looked at.

        :raises InvalidInput: ``older_than`` is negative
        :raises PaimonError: something that may refer to files cannot be read; nothing was deleted
        """
        from paimon_spark.metadata.orphans import find_orphans

        if older_than < timedelta(0):
            raise InvalidInput(f"older_than = {older_than}: a negative age would make files of the future orphans")
        orphans = find_orphans(self._metadata, _now_millis() - older_than // timedelta(milliseconds=1))
        for orphan in [] if dry_run else orphans:
            self._metadata.storage.delete(orphan.path)
        return [orphan.path for orphan in orphans]

    @staticmethod
    def _write(data: pa.Table | pa.RecordBatch, write: TableWrite) -> Snapshot | None:
        write.check(data.schema)
        task = write.task(0)
        try:
            task.write(data)
            message = task.finish()
        except BaseException:
            task.abort()
            raise
        return write.commit([message])


def _metadata(path: str, options: Mapping[str, str]) -> TableMetadata:
    storage, root = locate(path, options)
    return TableMetadata(storage, root)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
