"""Retention: how many snapshots stay, and for how long."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from paimon_spark.errors import CorruptFile, InvalidOption, UnsupportedFeature
from paimon_spark.metadata.retention import Retention, needed_by_consumers, refuse_long_lived_changelogs
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import Options
from paimon_spark.storage.local import LocalStorage

HOUR = 3_600_000
NOW = 1_000 * HOUR
MANY = 2**31 - 1


@pytest.mark.parametrize(
    ("minimum", "maximum", "limit", "earliest", "latest", "old", "first_kept"),
    [
        (10, MANY, 50, 1, 15, 15, 6),  # all old: the minimum stays
        (1, MANY, 50, 1, 15, 4, 4),  # snapshot 4 has been superseded by 5, which is young
        (1, 3, 50, 1, 15, 0, 13),  # all young: the maximum stays
        (1, MANY, 50, 1, 201, 201, 51),  # not more than the limit
        (10, MANY, 50, 1, 10, 10, 1),
        (10, MANY, 50, 1, 5, 5, -4),
        (1, 1, 50, 7, 7, 7, 7),
        (1, MANY, 50, 7, 9, 0, 7),
        (5, 5, 3, 11, 20, 0, 14),
        (1, 5, 50, 11, 20, 20, 20),  # what the maximum lets stay may be too old
    ],
)
def test_what_goes(
    minimum: int, maximum: int, limit: int, earliest: int, latest: int, old: int, first_kept: int
) -> None:
    retention = Retention(minimum, maximum, HOUR, limit)

    def committed_at(id_: int) -> int | None:
        return None if id_ > latest else NOW - 2 * HOUR if id_ <= old else NOW - HOUR

    assert retention.first_kept(earliest, latest, NOW, committed_at) == first_kept


def test_a_gap_has_no_age() -> None:
    retention = Retention(1, MANY, HOUR, 50)
    assert retention.first_kept(1, 9, NOW, {2: 0, 3: 0, 6: 0, 7: NOW}.get) == 6


def test_options() -> None:
    assert Retention.of(Options()) == Retention(10, MANY, HOUR, 50)
    options = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "7", "snapshot.time-retained": "2 d"}
    assert Retention.of(Options({**options, "snapshot.expire.limit": "3"})) == Retention(2, 7, 48 * HOUR, 3)
    for options in ({"snapshot.num-retained.max": "3"}, {"snapshot.num-retained.min": "0"}):
        with pytest.raises(InvalidOption, match=r"at least one snapshot stays"):
            Retention.of(Options(options))
    with pytest.raises(InvalidOption, match="at least 1"):
        Retention.of(Options({"snapshot.expire.limit": "0"}))


@pytest.mark.parametrize(
    ("key", "value"),
    [("changelog.time-retained", "2 h"), ("changelog.num-retained.min", "11"), ("changelog.num-retained.max", "5")],
)
def test_changelogs_that_outlive_snapshots_are_refused(key: str, value: str) -> None:
    options = Options({key: value, "snapshot.num-retained.max": "4"} if key.endswith("max") else {key: value})
    with pytest.raises(UnsupportedFeature, match=key):
        refuse_long_lived_changelogs(options)
    refuse_long_lived_changelogs(Options({"changelog.time-retained": "1 h", "changelog.num-retained.min": "1"}))


def test_consumers(tmp_path: Path) -> None:
    metadata = TableMetadata(LocalStorage(), str(tmp_path))
    assert needed_by_consumers(metadata, Options(), NOW) is None
    (tmp_path / "consumer").mkdir()
    for name, following, age in (("a", 7, 1), ("b", 5, 3), ("c", 6, 1)):
        file = tmp_path / "consumer" / f"consumer-{name}"
        file.write_text(json.dumps({"nextSnapshot": following}))
        os.utime(file, ns=((NOW - age * HOUR) * 10**6,) * 2)
    (tmp_path / "consumer" / "readme").write_text("no consumer")
    assert needed_by_consumers(metadata, Options(), NOW) == 5
    assert needed_by_consumers(metadata, Options({"consumer.expiration-time": "2 h"}), NOW) == 6
    assert needed_by_consumers(metadata, Options({"consumer.changelog-only": "true"}), NOW) is None
    (tmp_path / "consumer" / "consumer-d").write_text("{}")
    with pytest.raises(CorruptFile, match="nextSnapshot"):
        needed_by_consumers(metadata, Options(), NOW)
