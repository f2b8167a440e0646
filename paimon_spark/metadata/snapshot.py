"""Snapshot and SnapshotStore: the versions of a table's content, one JSON file each.

``snapshot/snapshot-<id>``, ids from 1 without gaps, never changed once published. A snapshot names two manifest
lists: the live files are those of ``baseManifestList`` with the changes of ``deltaManifestList`` applied.
``snapshot/LATEST`` and ``EARLIEST`` are hints: a decimal id, possibly out of date, possibly missing.
``tag/tag-<name>`` is a copy of a snapshot that outlives it.

Source: ``Snapshot``, ``SnapshotManager``, ``HintFileUtils``, ``TagManager`` of Apache Paimon.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from paimon_spark.errors import CorruptFile, NotFound, PaimonError
from paimon_spark.metadata.json_object import SIZE_LIMIT, JsonObject, to_json
from paimon_spark.metadata.paths import SNAPSHOT_PREFIX, TAG_PREFIX, TablePaths, listed_id
from paimon_spark.storage.storage import Storage

APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
COMMIT_KINDS = frozenset({APPEND, COMPACT, OVERWRITE, ANALYZE})
VERSION = 3
KEEP_LONGER = (
    "To keep a snapshot, tag it; to keep all for longer, raise 'snapshot.time-retained' or 'snapshot.num-retained.min'"
)
_NO_WATERMARK = -(2**63)
_HINT_LIMIT = 64
_READ_ATTEMPTS, _READ_PAUSE_SECONDS = 4, 0.05


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One version of a table. Fields are the file's keys; None is an absent key.

    Record counts are of physical rows: deletes and superseded versions count. ``base_manifest_list_size`` and its
    like are exact file sizes in bytes. ``schema_id`` is the newest schema when the snapshot was committed.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    total_record_count: int | None = None
    delta_record_count: int | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = field(default=None, hash=False)
    next_row_id: int | None = None
    operation: str | None = None
    uuid: str | None = None
    writer_version: str | None = None
    version: int = VERSION

    def serialize(self) -> bytes:
        """The content of its snapshot file."""
        return to_json(
            {
                "version": self.version,
                "uuid": self.uuid,
                "id": self.id,
                "schemaId": self.schema_id,
                "baseManifestList": self.base_manifest_list,
                "baseManifestListSize": self.base_manifest_list_size,
                "deltaManifestList": self.delta_manifest_list,
                "deltaManifestListSize": self.delta_manifest_list_size,
                "changelogManifestList": self.changelog_manifest_list,
                "changelogManifestListSize": self.changelog_manifest_list_size,
                "indexManifest": self.index_manifest,
                "commitUser": self.commit_user,
                "writerVersion": self.writer_version,
                "commitIdentifier": self.commit_identifier,
                "commitKind": self.commit_kind,
                "timeMillis": self.time_millis,
                "totalRecordCount": self.total_record_count,
                "deltaRecordCount": self.delta_record_count,
                "changelogRecordCount": self.changelog_record_count,
                "watermark": self.watermark,
                "statistics": self.statistics,
                "properties": None if self.properties is None else dict(self.properties),
                "nextRowId": self.next_row_id,
                "operation": self.operation,
            }
        )

    @staticmethod
    def parse(data: bytes, path: str) -> Snapshot:
        """The snapshot in the content of a snapshot or tag file; ``path`` is what errors name.

        :raises CorruptFile: not a snapshot
        :raises UnsupportedFeature: a later version of the format
        """
        json = JsonObject.parse(data, path)
        kind = json.text("commitKind")
        if kind not in COMMIT_KINDS:
            raise CorruptFile(path, f"key 'commitKind': {kind!r} is none of {', '.join(sorted(COMMIT_KINDS))}")
        watermark = json.optional_integer("watermark")
        return Snapshot(
            version=json.known_version(VERSION),
            uuid=json.optional_text("uuid"),
            id=json.integer("id"),
            schema_id=json.integer("schemaId"),
            base_manifest_list=json.text("baseManifestList"),
            base_manifest_list_size=json.optional_integer("baseManifestListSize"),
            delta_manifest_list=json.text("deltaManifestList"),
            delta_manifest_list_size=json.optional_integer("deltaManifestListSize"),
            changelog_manifest_list=json.optional_text("changelogManifestList"),
            changelog_manifest_list_size=json.optional_integer("changelogManifestListSize"),
            index_manifest=json.optional_text("indexManifest"),
            commit_user=json.text("commitUser"),
            writer_version=json.optional_text("writerVersion"),
            commit_identifier=json.integer("commitIdentifier", default=0),
            commit_kind=kind,
            time_millis=json.integer("timeMillis"),
            total_record_count=json.optional_integer("totalRecordCount"),
            delta_record_count=json.optional_integer("deltaRecordCount"),
            changelog_record_count=json.optional_integer("changelogRecordCount"),
            watermark=None if watermark == _NO_WATERMARK else watermark,
            statistics=json.optional_text("statistics"),
            properties=json.optional_mapping("properties"),
            next_row_id=json.optional_integer("nextRowId"),
            operation=json.optional_text("operation"),
        )


@dataclass(frozen=True)
class SnapshotStore:
    """The snapshots and tags of a table."""

    storage: Storage
    paths: TablePaths

    def ids(self) -> list[int]:
        """The ids of all snapshots, ascending."""
        names = (file.name for file in self.storage.list(self.paths.snapshot_directory))
        return sorted(id_ for name in names if (id_ := listed_id(name, SNAPSHOT_PREFIX)) is not None)

    def latest_id(self) -> int | None:
        """The id of the newest snapshot; None when there is none.

        The hint counts only when the snapshot it names exists and the next one does not. A hint may lag behind
        (its writer died, or lost a race to write it) or run ahead (someone removed snapshots); then the directory
        is listed.
        """
        hint = self._hint(self.paths.latest_hint)
        if hint is not None and self._exists(hint) and not self._exists(hint + 1):
            return hint
        return max(self.ids(), default=None)

    def earliest_id(self, remember: bool = False) -> int | None:
        """The id of the oldest snapshot that has not expired; None when there is none.

        ``remember`` writes the EARLIEST hint when that did not tell, so that nobody needs to list again.
        """
        hint = self._hint(self.paths.earliest_hint)
        if hint is not None and self._exists(hint):
            return hint
        earliest = min(self.ids(), default=None)
        if remember and earliest is not None:
            self.write_earliest_hint(earliest)
        return earliest

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None when there is none."""
        latest = self.latest_id()
        while latest is not None:
            try:
                return self.get(latest)
            except NotFound:  # newer ones let it expire just now, or somebody removed it
                sought, latest = latest, self.latest_id()
                if latest == sought:
                    raise
        return None

    def get(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id.

        :raises NotFound: it has expired or was never written
        :raises CorruptFile: the file is not a snapshot, or another one
        """
        path = self.paths.snapshot_file(snapshot_id)
        try:
            snapshot = self._read(path)
        except NotFound:
            raise NotFound(self._missing(snapshot_id)) from None
        if snapshot.id != snapshot_id:
            raise CorruptFile(path, f"it holds snapshot {snapshot.id}")
        return snapshot

    def at_or_before(self, millis: int) -> Snapshot | None:
        """The newest snapshot committed at or before a time in epoch milliseconds; None when all are younger.

        Commit times do not decrease from one snapshot to the next, so this is a binary search.
        """
        ids = self.ids()
        found: Snapshot | None = None
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            try:
                snapshot = self.get(ids[middle])
            except NotFound:  # it has expired meanwhile, and those before it
                low = middle + 1
                continue
            if snapshot.time_millis <= millis:
                found, low = snapshot, middle + 1
            else:
                high = middle
        return found

    def has_commit(self, user: str, after: int) -> bool:
        """Whether there is a snapshot by this commit user with an id greater than ``after``."""
        for id_ in range(after + 1, (self.latest_id() or 0) + 1):
            with contextlib.suppress(NotFound):  # it expired just now
                if self.get(id_).commit_user == user:
                    return True
        return False

    def publish(self, snapshot: Snapshot) -> bool:
        """Make a snapshot the table's next version; False when its id is taken, and then nothing is written.

        :raises StorageError: the storage did not say whether it was published
        """
        return self.storage.put_if_absent(self.paths.snapshot_file(snapshot.id), snapshot.serialize())

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Point the LATEST hint at a published snapshot. Failure is ignored: readers do without hints."""
        with contextlib.suppress(PaimonError):
            self.storage.replace(self.paths.latest_hint, str(snapshot_id).encode("ascii"))

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Point the EARLIEST hint at the oldest snapshot, unless it does so already. Failure is ignored."""
        if self._hint(self.paths.earliest_hint) != snapshot_id:
            with contextlib.suppress(PaimonError):
                self.storage.replace(self.paths.earliest_hint, str(snapshot_id).encode("ascii"))

    def tags(self) -> list[str]:
        """The names of all tags, sorted."""
        names = (file.name for file in self.storage.list(self.paths.tag_directory))
        return sorted(name[len(TAG_PREFIX) :] for name in names if name.startswith(TAG_PREFIX))

    def has_tag(self, name: str) -> bool:
        """Whether there is a tag of that name."""
        return name in self.tags()

    def tag(self, name: str) -> Snapshot:
        """The snapshot that a tag keeps; without its changelog, which goes when the snapshot expires.

        :raises NotFound: no such tag
        """
        try:
            kept = self._read(self.paths.tag_file(name))
            return replace(kept, changelog_manifest_list=None, changelog_manifest_list_size=None)
        except NotFound:
            raise NotFound(
                f"tag {name!r} of table {self.paths.root} does not exist; the tags are: {self._tag_names()}"
            ) from None

    def _read(self, path: str) -> Snapshot:
        """Read a snapshot, again after a pause when it is torn: not every engine writes its files atomically."""
        for attempt in range(1, _READ_ATTEMPTS + 1):
            try:
                return Snapshot.parse(self.storage.read(path, SIZE_LIMIT), path)
            except CorruptFile:
                if attempt == _READ_ATTEMPTS:
                    raise
                time.sleep(_READ_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    def _exists(self, snapshot_id: int) -> bool:
        return self.storage.exists(self.paths.snapshot_file(snapshot_id))

    def _hint(self, path: str) -> int | None:
        try:
            text = self.storage.read(path, _HINT_LIMIT)
        except PaimonError:
            return None
        return int(text) if text.isdigit() and len(text) < 19 and int(text) > 0 else None

    def _missing(self, snapshot_id: int) -> str:
        earliest = self.earliest_id()
        subject = f"snapshot {snapshot_id} of table {self.paths.root}"
        if earliest is None:
            return f"{subject} does not exist: the table has no snapshots"
        rest = f"the earliest is {earliest}, the latest {self.latest_id()}, the tags are: {self._tag_names()}"
        if snapshot_id < earliest:
            return f"{subject} has expired; {rest}. {KEEP_LONGER}"
        return f"{subject} does not exist; {rest}"

    def _tag_names(self) -> str:
        return ", ".join(self.tags()) or "none"
