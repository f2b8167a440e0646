"""The state of a table at a snapshot, read from its manifests with every number in them counted again.

Manifests are walked in order, which is stricter than reading needs: a file is added, later perhaps deleted, and never
added again at the same level. Of the manifests only those of the snapshot read last are remembered, since the next
snapshot mostly lists the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.places import Places
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.metadata.index_manifest import IndexEntry
from paimon_spark.metadata.key_order import comparable_rows
from paimon_spark.metadata.manifest import ADD, Identifier, ManifestEntry
from paimon_spark.metadata.manifest_list import ManifestFile
from paimon_spark.metadata.manifest_store import describe
from paimon_spark.metadata.snapshot import Snapshot
from paimon_spark.types import DataType


@dataclass(frozen=True)
class State:
    """What a snapshot is made of. ``complete`` is False when some of its manifests could not be read.

    ``inherited`` identifies the files that its base list holds: those of the snapshot before it.
    """

    snapshot: Snapshot
    live: tuple[ManifestEntry, ...]
    inherited: frozenset[Identifier]
    changelog: tuple[ManifestEntry, ...]
    indexes: tuple[IndexEntry, ...]
    complete: bool

    @property
    def name(self) -> str:
        """What breaches call the snapshot."""
        return f"snapshot {self.snapshot.id}"

    @property
    def buckets(self) -> dict[tuple[bytes, int], list[ManifestEntry]]:
        """The live files of each (partition, bucket)."""
        result: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for entry in self.live:
            result.setdefault((entry.partition, entry.bucket), []).append(entry)
        return result


@dataclass
class StateReader:
    """Reads states of one table, and collects the breaches it meets in ``breaches``."""

    places: Places
    breaches: list[Breach] = field(default_factory=list)
    _manifests: dict[str, list[ManifestEntry]] = field(default_factory=dict)

    def read(self, snapshot: Snapshot) -> State:
        """The state at a snapshot, as far as its manifests can be read."""
        known, self._manifests = self._manifests, {}
        walk = _Walk()
        base = self._entries(snapshot.base_manifest_list, snapshot.base_manifest_list_size, known)
        contradictions = [b for name, entries in base for b in walk.apply(entries, f"manifest/{name}")]
        inherited = frozenset(walk.live)
        delta = self._entries(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, known)
        contradictions += [b for name, entries in delta for b in walk.apply(entries, f"manifest/{name}")]
        changelog = self._changelog(snapshot, known)
        complete = len(base) == base.promised and len(delta) == delta.promised
        state = State(
            snapshot, tuple(walk.live.values()), inherited, changelog, tuple(self._indexes(snapshot)), complete
        )
        if complete:
            self.breaches += contradictions
            self._check_totals(state, [entry for _, entries in delta for entry in entries])
        return state

    def _changelog(self, snapshot: Snapshot, known: dict[str, list[ManifestEntry]]) -> tuple[ManifestEntry, ...]:
        if snapshot.changelog_manifest_list is None:
            return ()
        manifests = self._entries(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, known)
        entries = tuple(entry for _, entries in manifests for entry in entries)
        recorded, found = snapshot.changelog_record_count, sum(entry.file.row_count for entry in entries)
        if recorded is not None and recorded != found and len(manifests) == manifests.promised:
            where = f"snapshot {snapshot.id}"
            self._breach(Kind.COUNT, where, f"changelogRecordCount is {recorded}, its changelog files have {found}")
        return entries

    def _indexes(self, snapshot: Snapshot) -> Sequence[IndexEntry]:
        try:
            return self.places.metadata.indexes.of_snapshot(snapshot).entries
        except (CorruptFile, NotFound) as problem:
            path = self.places.metadata.paths.manifest(snapshot.index_manifest or "")
            self.breaches.append(self.places.breach(problem, path))
            return ()

    def _check_totals(self, state: State, delta: Sequence[ManifestEntry]) -> None:
        total = sum(entry.file.row_count for entry in state.live)
        change = sum(entry.file.row_count if entry.kind == ADD else -entry.file.row_count for entry in delta)
        for key, recorded, found in (
            ("totalRecordCount", state.snapshot.total_record_count, total),
            ("deltaRecordCount", state.snapshot.delta_record_count, change),
        ):
            if recorded is not None and recorded != found:
                self._breach(Kind.COUNT, state.name, f"{key} is {recorded}, the files it lists have {found} rows")

    # ------------------------------------------------------------------ manifests

    def _entries(self, name: str, size: int | None, known: dict[str, list[ManifestEntry]]) -> _Manifests:
        """The entries of each manifest of a list, by the manifest's name."""
        store, paths = self.places.metadata.manifests, self.places.metadata.paths
        try:
            files = store.read_list(name, size)
        except (CorruptFile, NotFound) as problem:
            self.breaches.append(self.places.breach(problem, paths.manifest(name)))
            return _Manifests(-1)
        result = _Manifests(len(files))
        for file in files:
            entries = known.get(file.name)
            if entries is None:
                try:
                    entries = store.read(file)
                except (CorruptFile, NotFound) as problem:
                    self.breaches.append(self.places.breach(problem, paths.manifest(file.name)))
                    continue
            self._manifests[file.name] = entries
            result.append((file.name, entries))
            types = [f.type for f in self.places.schema.partition_fields]
            self.breaches += check_manifest(file, entries, types, f"manifest/{name}")
        return result

    def _breach(self, kind: Kind, where: str, detail: str) -> None:
        self.breaches.append(Breach(kind, where, detail))


class _Manifests(list[tuple[str, list[ManifestEntry]]]):
    """The manifests of a list that could be read; ``promised`` is how many it has, -1 when nobody knows."""

    def __init__(self, promised: int) -> None:
        super().__init__()
        self.promised = promised


class _Walk:
    """The files that are live after some manifests."""

    def __init__(self) -> None:
        self.live: dict[Identifier, ManifestEntry] = {}
        self._gone: set[Identifier] = set()

    def apply(self, entries: Iterable[ManifestEntry], where: str) -> Iterator[Breach]:
        """Add and delete what a manifest says."""
        for entry in entries:
            identifier = entry.identifier
            what = f"data file {entry.file.name} at level {entry.file.level} of bucket {entry.bucket}"
            if entry.kind != ADD:
                if self.live.pop(identifier, None) is None:
                    yield Breach(Kind.ENTRY, where, f"it deletes {what}, which is not in the table")
                self._gone.add(identifier)
            elif identifier in self.live:
                yield Breach(Kind.ENTRY, where, f"it adds {what}, which is in the table already")
            elif identifier in self._gone:
                yield Breach(Kind.ENTRY, where, f"it adds {what}, which was deleted before")
            else:
                self.live[identifier] = entry


def check_manifest(
    listed: ManifestFile, entries: Sequence[ManifestEntry], partition_types: Sequence[DataType], where: str
) -> Iterator[Breach]:
    """Whether a manifest list at ``where`` describes a manifest as it is. Bounds may be wider than need be."""
    if not entries:
        if listed.added or listed.deleted:
            yield _miscounted(listed, 0, 0, where)
        return
    try:
        found = describe(listed.name, listed.size, entries, partition_types)
        partitions = _outside_partition_bounds(listed, found, partition_types)
    except CorruptFile as problem:
        yield Breach(Kind.CORRUPT, f"manifest/{listed.name}", f"a partition in it: {problem.detail}")
        return
    if (listed.added, listed.deleted) != (found.added, found.deleted):
        yield _miscounted(listed, found.added, found.deleted, where)
    for what, low, high, least, greatest in (
        ("buckets", listed.min_bucket, listed.max_bucket, found.min_bucket, found.max_bucket),
        ("levels", listed.min_level, listed.max_level, found.min_level, found.max_level),
    ):
        if (low is not None and low > (least or 0)) or (high is not None and high < (greatest or 0)):
            detail = f"it says that {listed.name} has {what} {low} to {high}, but it has {least} to {greatest}"
            yield Breach(Kind.BOUNDS, where, detail)
    if partitions:
        yield Breach(Kind.BOUNDS, where, f"{listed.name} has partitions outside of the bounds recorded for it")


def _outside_partition_bounds(listed: ManifestFile, found: ManifestFile, types: Sequence[DataType]) -> bool:
    """Whether the partitions found are not within those listed; a null bound is unknown."""
    recorded, actual = listed.partition_stats, found.partition_stats
    rows = comparable_rows([recorded.lower, recorded.upper, actual.lower, actual.upper], types)
    return any(
        least[0] and ((low[0] and low[1] > least[1]) or (high[0] and high[1] < greatest[1]))
        for low, high, least, greatest in zip(*rows, strict=True)
    )


def _miscounted(listed: ManifestFile, added: int, deleted: int, where: str) -> Breach:
    return Breach(
        Kind.COUNT,
        where,
        f"it says that {listed.name} has {listed.added} additions and {listed.deleted} deletions, "
        f"but it has {added} and {deleted}",
    )
