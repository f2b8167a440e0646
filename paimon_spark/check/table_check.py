"""Checking a table: every invariant of its snapshots, from the snapshot file down to the rows.

From cheap to dear: the manifests are read and counted again (:mod:`~paimon_spark.check.state`), their entries held
against each other (``layout``), every file they name looked for (``places``), deletion vectors read (``vectors``). A
``deep`` check then reads every data file (``file_rows``) and, where readers do not merge, makes sure that no key has
two rows (``unique_keys``). Files that are known to be broken are not read again for the sake of dearer checks. What
several snapshots share is checked once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.file_rows import check_file_rows
from paimon_spark.check.layout import check_layout
from paimon_spark.check.places import Places
from paimon_spark.check.state import State, StateReader
from paimon_spark.check.unique_keys import check_unique_keys
from paimon_spark.check.vectors import BucketVectors, VectorCheck, identity
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.metadata.manifest import Identifier, ManifestEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.metadata.unsupported import refuse_unsupported
from paimon_spark.options import DELETION_VECTORS, MERGE_ENGINE
from paimon_spark.storage.locate import locate


def check(
    path: str,
    options: Mapping[str, str] | None = None,
    *,
    snapshot: int | None = None,
    all_snapshots: bool = False,
    deep: bool = True,
) -> list[Breach]:
    """Check the table at ``path``; see :func:`check_table`. ``options`` are storage options.

    :raises NotFound: there is no table
    """
    storage, root = locate(path, options or {})
    metadata = TableMetadata(storage, root)
    if not metadata.schemas.ids():
        raise NotFound(f"there is no Paimon table at {path}")
    with contextlib.suppress(CorruptFile, NotFound):  # a schema that cannot be read is a breach, found below
        schema = metadata.schemas.latest()
        metadata = metadata if schema is None else metadata.reaching(schema, options or {})
    return check_table(metadata, snapshot=snapshot, all_snapshots=all_snapshots, deep=deep)


def check_table(
    metadata: TableMetadata, *, snapshot: int | None = None, all_snapshots: bool = False, deep: bool = True
) -> list[Breach]:
    """Every breach of the table at a snapshot: the newest one, that of an id, or all of them and all tags.

    No breaches: the table is sound. ``deep`` reads every row of every live file, in batches; without it data files
    are only looked for. Memory: the metadata of one snapshot, and a batch of each file of a section.

    :raises NotFound: the snapshot does not exist, or expired while it was checked
    :raises UnsupportedFeature: the table uses a feature that this package does not know how to check
    :raises StorageError: the storage failed, so nothing can be said
    """
    return list(dict.fromkeys(_TableCheck(metadata, deep).breaches(snapshot, all_snapshots)))


class _TableCheck:
    def __init__(self, metadata: TableMetadata, deep: bool) -> None:
        self._metadata = metadata
        self._deep = deep
        self._schema_ids = metadata.schemas.ids()
        self._known: dict[tuple[object, ...], list[Breach]] = {}
        self._unique: set[tuple[bytes, int, bytes]] = set()
        self._found: list[Breach] = []

    def breaches(self, snapshot: int | None, all_snapshots: bool) -> Iterator[Breach]:
        """All that is wrong, in the order in which it was found."""
        if not self._schemas_are_sound():
            yield from self._found
            return
        if all_snapshots:
            yield from self._history()
            return
        chosen = self._metadata.snapshots.latest_id() if snapshot is None else snapshot
        if chosen is not None:
            yield from self._of_snapshot(chosen)

    def _schemas_are_sound(self) -> bool:
        for id_ in self._schema_ids:
            try:
                self._metadata.schemas.get(id_)
            except CorruptFile as problem:
                self._found.append(Breach(Kind.CORRUPT, f"schema/schema-{id_}", problem.detail))
        return not self._found

    def _schema(self, snapshot: Snapshot) -> TableSchema:
        """The schema and options that readers of a snapshot go by: the table's newest for the newest snapshot."""
        ids = self._schema_ids
        newest = self._metadata.snapshots.latest_id()
        chosen = ids[-1] if snapshot.id == newest or snapshot.schema_id not in ids else snapshot.schema_id
        schema = self._metadata.schemas.get(chosen)
        # What a merge engine makes of the rows is nobody's invariant, so one that cannot be read can be checked.
        refuse_unsupported(schema.with_options(schema.options.merged({MERGE_ENGINE.key: "deduplicate"})), False)
        return schema

    # ------------------------------------------------------------------ snapshots

    def _history(self) -> Iterator[Breach]:
        """All snapshots, each also against the one before it; and tags of snapshots that expired."""
        before: State | None = None
        ids = self._metadata.snapshots.ids()
        for id_ in range(ids[0], ids[-1] + 1) if ids else ():
            if id_ not in ids:
                yield Breach(Kind.MISSING, f"snapshot/snapshot-{id_}", "the file does not exist")
                before = None
                continue
            found: list[State] = []
            try:
                yield from self._of_snapshot(id_, found)
            except NotFound:
                if id_ >= (self._metadata.snapshots.earliest_id() or 0):
                    raise
                continue  # it expired while it was checked
            state = found[0] if found else None
            if before is not None and state is not None:
                yield from _check_succession(before, state)
            before = state
        for tag in self._metadata.snapshots.tags():
            try:
                snapshot = self._metadata.snapshots.tag(tag)
            except CorruptFile as problem:
                yield Breach(Kind.CORRUPT, f"tag/tag-{tag}", problem.detail)
                continue
            if snapshot.id not in ids:
                yield from self._of(snapshot)

    def _of_snapshot(self, id_: int, states: list[State] | None = None) -> Iterator[Breach]:
        """The breaches of a snapshot, whose state goes to ``states``."""
        try:
            snapshot = self._metadata.snapshots.get(id_)
        except CorruptFile as problem:
            yield Breach(Kind.CORRUPT, f"snapshot/snapshot-{id_}", problem.detail)
            return
        found = list(self._of(snapshot, states))
        if any(b.kind is Kind.MISSING for b in found):
            self._metadata.snapshots.get(id_)  # raises NotFound when it has expired meanwhile: then nothing is wrong
        yield from found

    def _of(self, snapshot: Snapshot, states: list[State] | None = None) -> Iterator[Breach]:
        places = Places(self._metadata, self._schema(snapshot))
        reader = StateReader(places)
        state = reader.read(snapshot)
        if states is not None:
            states.append(state)
        yield from reader.breaches
        yield from check_layout(state, places.schema, self._schema_ids, places.data_file_name)
        absent: set[Identifier] = set()
        for entry in (*state.live, *state.changelog):
            for breach in places.absence(entry):
                absent.add(entry.identifier)
                yield breach
        for index in state.indexes:
            yield from places.index_absence(index)
        if snapshot.statistics is not None:
            yield from places.statistics_absence(snapshot.statistics)
        vectors = VectorCheck(places, state)
        yield from vectors.breaches()
        if self._deep:
            yield from self._rows(places, state, vectors, absent)

    # ------------------------------------------------------------------ rows

    def _rows(self, places: Places, state: State, vectors: VectorCheck, absent: set[Identifier]) -> Iterator[Breach]:
        masked = places.schema.options.get_option(DELETION_VECTORS) or places.schema.merge_engine == "first-row"
        for (partition, bucket), entries in state.buckets.items():
            sound = True
            for entry in entries:
                if entry.identifier in absent or entry.file.schema_id not in self._schema_ids:
                    sound = False
                    continue
                found = self._of_file(places, entry)
                sound = sound and not found
                yield from found
            masks = vectors.of_bucket(partition, bucket)
            if masked and sound and masks is not None:
                upper = [entry for entry in entries if entry.file.level > 0]
                mark = (partition, bucket, identity(upper, masks))
                if mark not in self._unique:
                    self._unique.add(mark)
                    yield from _unique_keys(places, upper, masks)

    def _of_file(self, places: Places, entry: ManifestEntry) -> list[Breach]:
        mark = (entry.partition, entry.bucket, entry.total_buckets, entry.file.at_level(0))
        found = self._known.get(mark)
        if found is None:
            found = self._known[mark] = check_file_rows(places, entry)
        return found


def _unique_keys(places: Places, entries: Sequence[ManifestEntry], masks: BucketVectors) -> list[Breach]:
    """The breaches of :func:`check_unique_keys`; also of files that go away or break while it reads them again."""
    try:
        return list(check_unique_keys(places, entries, masks))
    except (CorruptFile, NotFound) as problem:
        return [places.breach(problem, places.bucket(entries[0].partition, entries[0].bucket))]


def _check_succession(before: State, state: State) -> Iterator[Breach]:
    """Whether a snapshot begins with the files that the one before it ended with."""
    if before.complete and state.complete:
        live = {entry.identifier for entry in before.live}
        for what, files in (("lacks", live - state.inherited), ("adds", state.inherited - live)):
            if files:
                example = sorted(str(identifier[3]) for identifier in files)[0]
                detail = f"its base list {what} {len(files)} of the files of {before.name}, such as {example}"
                yield Breach(Kind.HISTORY, state.name, detail)
    if state.snapshot.time_millis < before.snapshot.time_millis:
        detail = (
            f"it was committed at {state.snapshot.time_millis}, before {before.name} at {before.snapshot.time_millis}"
        )
        yield Breach(Kind.HISTORY, state.name, detail)
