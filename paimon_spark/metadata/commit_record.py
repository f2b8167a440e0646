"""CommitRecord: which commits of which users a table has, also after their snapshots have expired.

A snapshot's property ``paimon-py.committed`` is JSON: an object of ``<commit kind> <user>``, the last to commit at the
end, with the identifier of the last commit. Every snapshot of this package takes it over from the one before, and adds
its own commit if that is repeatable, which those of batch jobs are not. It remembers MAX_USERS. A snapshot of another
engine has none, and then only the snapshots that are there can tell.
"""

from __future__ import annotations

import json

from paimon_spark.errors import CorruptFile
from paimon_spark.metadata.commit_request import BATCH_IDENTIFIER
from paimon_spark.metadata.json_object import JsonObject
from paimon_spark.metadata.snapshot import Snapshot

COMMITTED = "paimon-py.committed"
MAX_USERS = 64


def is_recorded(snapshot: Snapshot, user: str, kind: str, identifier: int) -> bool:
    """Whether a snapshot records that commit of a user, or a later one.

    :raises CorruptFile: the property is damaged
    """
    recorded = _record(snapshot).get(f"{kind} {user}")
    return recorded is not None and identifier <= recorded


def record_after(latest: Snapshot | None, user: str, kind: str, identifier: int) -> str | None:
    """The property of the snapshot that follows ``latest`` by that commit; None when there is nothing to record.

    :raises CorruptFile: the property of ``latest`` is damaged
    """
    record = {} if latest is None else _record(latest)
    if identifier != BATCH_IDENTIFIER:
        record.pop(f"{kind} {user}", None)
        record[f"{kind} {user}"] = identifier
    kept = dict(list(record.items())[-MAX_USERS:])
    return json.dumps(kept, ensure_ascii=False) if kept else None


def _record(snapshot: Snapshot) -> dict[str, int]:
    text = (snapshot.properties or {}).get(COMMITTED)
    if text is None:
        return {}
    path = f"snapshot-{snapshot.id}, property {COMMITTED}"
    record = JsonObject.parse(text.encode("utf-8", "surrogatepass"), path)
    if None in record.values.values():
        raise CorruptFile(path, "an identifier is null")
    return {user: record.integer(user) for user in record.values}
