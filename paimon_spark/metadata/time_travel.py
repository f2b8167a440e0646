"""Time travel: which snapshot the ``scan.*`` options of a read select.

==========================  ==============================================================================
``scan.snapshot-id``        that snapshot
``scan.timestamp-millis``   the newest snapshot at or before a time in epoch milliseconds
``scan.timestamp``          the same, as text: ``2024-01-31 10:30:00`` in this process's time zone
``scan.tag-name``           the snapshot of a tag, even when it has expired
``scan.version``            a tag of that name, else ``watermark-<n>``, else a snapshot id
==========================  ==============================================================================

At most one is given. The rows then have the columns of the snapshot's schema.

Source: ``TimeTravelUtil``, ``CoreOptions.StartupMode`` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from paimon_spark.errors import InvalidOption, NotFound, UnsupportedFeature
from paimon_spark.metadata.snapshot import KEEP_LONGER, Snapshot, SnapshotStore
from paimon_spark.options import (
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    Options,
)

_TRAVEL = (SCAN_SNAPSHOT_ID, SCAN_TIMESTAMP_MILLIS, SCAN_TIMESTAMP, SCAN_TAG_NAME, SCAN_VERSION)
_SCAN_MODE = "scan.mode"
_LATEST_MODES = frozenset({"latest-full", "latest", "full"})
_REFUSED = (
    "scan.watermark",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
)
_WATERMARK = "watermark-"
_TIMESTAMP = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)


def is_time_travel(options: Mapping[str, str]) -> bool:
    """Whether the options select a snapshot other than the newest."""
    return any(option.key in options for option in _TRAVEL)


def travel(snapshots: SnapshotStore, options: Options) -> Snapshot | None:
    """The snapshot that the options select: the newest one by default, None while the table has none.

    :raises NotFound: the selected snapshot or tag does not exist
    :raises InvalidOption: several are selected, or a value is none
    :raises UnsupportedFeature: an incremental or other kind of read is asked for
    """
    _refuse_other_reads(options)
    given = [option.key for option in _TRAVEL if option.key in options]
    if not given:
        return snapshots.latest()
    if len(given) > 1:
        raise InvalidOption(f"options {', '.join(map(repr, given))} each select a snapshot; give one of them")
    snapshot_id = options.get_option(SCAN_SNAPSHOT_ID)
    if snapshot_id is not None:
        return snapshots.get(snapshot_id)
    tag = options.get_option(SCAN_TAG_NAME)
    if tag is not None:
        return snapshots.tag(tag)
    version = options.get_option(SCAN_VERSION)
    if version is not None:
        return _version(snapshots, version)
    return _at(snapshots, options)


def _refuse_other_reads(options: Options) -> None:
    for key in _REFUSED:
        if key in options:
            raise UnsupportedFeature(f"option {key!r} is not supported; time travel by {SCAN_SNAPSHOT_ID.key!r} is")
    mode = options.get(_SCAN_MODE, "default").strip().lower()
    if mode in _LATEST_MODES and is_time_travel(options):
        given = next(option.key for option in _TRAVEL if option.key in options)
        raise InvalidOption(
            f"option {_SCAN_MODE!r} = {mode!r} reads the newest snapshot, but {given!r} selects another"
        )
    if mode != "default" and mode not in _LATEST_MODES:
        raise UnsupportedFeature(
            f"option {_SCAN_MODE!r} = {mode!r} is not supported; leave it out, and select a snapshot by "
            f"{SCAN_SNAPSHOT_ID.key!r}, {SCAN_TIMESTAMP_MILLIS.key!r} or {SCAN_TAG_NAME.key!r}"
        )


def _version(snapshots: SnapshotStore, version: str) -> Snapshot:
    if snapshots.has_tag(version):
        return snapshots.tag(version)
    watermark = version.removeprefix(_WATERMARK)
    if watermark != version and re.fullmatch(r"-?[0-9]{1,18}", watermark):
        return _at_watermark(snapshots, int(watermark))
    if re.fullmatch("[0-9]{1,18}", version):
        return snapshots.get(int(version))
    known = ", ".join(snapshots.tags()) or "none"
    raise NotFound(
        f"option {SCAN_VERSION.key!r} = {version!r} is no tag of table {snapshots.paths.root} (tags: {known}), "
        "no snapshot id and no watermark-<n>"
    )


def _at_watermark(snapshots: SnapshotStore, watermark: int) -> Snapshot:
    for id_ in snapshots.ids():
        try:
            snapshot = snapshots.get(id_)
        except NotFound:  # it has expired meanwhile
            continue
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise NotFound(f"no snapshot of table {snapshots.paths.root} has a watermark of at least {watermark}")


def _at(snapshots: SnapshotStore, options: Options) -> Snapshot:
    millis = options.get_option(SCAN_TIMESTAMP_MILLIS)
    if millis is None:
        millis = parse_timestamp(options.get_option(SCAN_TIMESTAMP) or "")
    snapshot = snapshots.at_or_before(millis)
    if snapshot is None:
        raise NotFound(f"table {snapshots.paths.root} has no snapshot at or before {millis} ms; {_first(snapshots)}")
    return snapshot


def _first(snapshots: SnapshotStore) -> str:
    earliest = snapshots.earliest_id()
    if earliest is None:
        return "it has none"
    first = f"its earliest, {earliest}, is of {snapshots.get(earliest).time_millis} ms"
    return first if earliest == 1 else f"{first}; those before it have expired. {KEEP_LONGER}"


def parse_timestamp(text: str) -> int:
    """Epoch milliseconds of ``2024-01-31``, ``2024-01-31 10:30:00.123`` or the same with ``T`` and a zone offset.

    Without an offset it is a local time of this process. Digits beyond milliseconds are cut off.

    :raises InvalidOption: not such a text
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise InvalidOption(
            f"option {SCAN_TIMESTAMP.key!r} = {text!r}: a time such as '2024-01-31 10:30:00' is expected"
        )
    parts = [int(match[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")]
    try:
        moment = datetime(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], tzinfo=_zone(match["zone"]))
        seconds = int(moment.timestamp())
    except (ValueError, OverflowError) as problem:
        raise InvalidOption(f"option {SCAN_TIMESTAMP.key!r} = {text!r}: {problem}") from None
    return seconds * 1000 + int((match["fraction"] or "")[:3].ljust(3, "0"))


def _zone(text: str | None) -> timezone | None:
    """The zone of an offset such as ``+02:00``; None, local time, without one."""
    if text is None:
        return None
    if text == "Z":
        return timezone.utc
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text[0] == "-" else offset)
