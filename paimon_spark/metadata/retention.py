"""Retention: which snapshots a table keeps, by number and by age.

==============================  ================  ============================================================
``snapshot.num-retained.min``   10                never fewer than these, however old
``snapshot.num-retained.max``   no bound          never more, however young
``snapshot.time-retained``      1 h               between the two: until superseded for that long
``snapshot.expire.limit``       50                as many go at a time, at most
==============================  ================  ============================================================

What goes is always a beginning of the history, so ids stay without gaps. A snapshot's age is that of the one after it:
it must have been superseded for the time. A consumer, a stream that remembers in ``consumer/consumer-<id>`` which
snapshot it reads next, keeps that snapshot and those after it.

Source: ``ExpireSnapshotsImpl``, ``ExpireConfig``, ``ConsumerManager`` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paimon_spark.errors import InvalidOption, NotFound, UnsupportedFeature
from paimon_spark.metadata.json_object import SIZE_LIMIT, JsonObject
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import (
    CHANGELOG_RETAINED_MAX,
    CHANGELOG_RETAINED_MIN,
    CHANGELOG_RETAINED_TIME,
    CONSUMER_CHANGELOG_ONLY,
    CONSUMER_EXPIRATION,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_RETAINED_MAX,
    SNAPSHOT_RETAINED_MIN,
    SNAPSHOT_RETAINED_TIME,
    WRITE_ONLY,
    Options,
)

_CONSUMER_PREFIX = "consumer-"


@dataclass(frozen=True)
class Retention:
    """How many snapshots stay (``minimum`` to ``maximum``), for how long (``millis``), and how many go at a time."""

    minimum: int
    maximum: int
    millis: float
    limit: int

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise InvalidOption(
                f"{SNAPSHOT_RETAINED_MIN.key!r} = {self.minimum} and {SNAPSHOT_RETAINED_MAX.key!r} = {self.maximum}: "
                "at least one snapshot stays, and the minimum is not above the maximum"
            )
        if self.limit < 1:
            raise InvalidOption(f"{SNAPSHOT_EXPIRE_LIMIT.key!r} = {self.limit}: at least 1 is expected")

    @classmethod
    def of(cls, options: Options) -> Retention:
        """What the table's options say.

        :raises InvalidOption: values that make no sense
        """
        return cls(
            options.get_option(SNAPSHOT_RETAINED_MIN),
            options.get_option(SNAPSHOT_RETAINED_MAX),
            options.get_option(SNAPSHOT_RETAINED_TIME),
            options.get_option(SNAPSHOT_EXPIRE_LIMIT),
        )

    def first_kept(self, earliest: int, latest: int, now: int, committed_at: Callable[[int], int | None]) -> int:
        """The id up to which, exclusively, snapshots expire; ``earliest`` or less when none does.

        ``committed_at`` gives a snapshot's time in epoch milliseconds, None for one that is not there.
        """
        stop = min(latest - self.minimum + 1, earliest + self.limit)
        for id_ in range(max(latest - self.maximum + 1, earliest), stop):
            superseded = committed_at(id_ + 1)
            if superseded is not None and superseded >= now - self.millis:
                return id_
        return stop


def refuse_long_lived_changelogs(options: Options) -> None:
    """Refuse to expire snapshots whose changelogs are to outlive them.

    :raises UnsupportedFeature: names the option
    """
    longest: dict[str, tuple[float | None, float]] = {
        CHANGELOG_RETAINED_MIN.key: (
            options.get_option(CHANGELOG_RETAINED_MIN),
            options.get_option(SNAPSHOT_RETAINED_MIN),
        ),
        CHANGELOG_RETAINED_MAX.key: (
            options.get_option(CHANGELOG_RETAINED_MAX),
            options.get_option(SNAPSHOT_RETAINED_MAX),
        ),
        CHANGELOG_RETAINED_TIME.key: (
            options.get_option(CHANGELOG_RETAINED_TIME),
            options.get_option(SNAPSHOT_RETAINED_TIME),
        ),
    }
    for key, (changelog, snapshot) in longest.items():
        if changelog is not None and changelog > snapshot:
            raise UnsupportedFeature(
                f"option {key!r} lets changelogs outlive their snapshots, which this package does not expire; set "
                f"{WRITE_ONLY.key!r} = 'true' and expire them with Flink or Java's Spark connector"
            )


def needed_by_consumers(metadata: TableMetadata, options: Options, now: int) -> int | None:
    """The first snapshot that a consumer has yet to read; None when no consumer keeps any.

    Consumers that have not moved for ``consumer.expiration-time`` keep nothing.

    :raises CorruptFile: a consumer file that does not say
    """
    if options.get_option(CONSUMER_CHANGELOG_ONLY):
        return None
    patience = options.get_option(CONSUMER_EXPIRATION)
    needed: list[int] = []
    for file in metadata.storage.list(metadata.paths.consumer_directory):
        if not file.name.startswith(_CONSUMER_PREFIX):
            continue
        if patience is not None and file.modified_millis < now - patience:
            continue
        path = f"{metadata.paths.consumer_directory}/{file.name}"
        try:
            needed.append(JsonObject.parse(metadata.storage.read(path, SIZE_LIMIT), path).integer("nextSnapshot"))
        except NotFound:  # it is gone since the listing
            continue
    return min(needed, default=None)
