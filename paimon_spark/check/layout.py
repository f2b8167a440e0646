"""The layout of a state: what manifests alone say about the files of each bucket, without a look at their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.state import State
from paimon_spark.errors import CorruptFile
from paimon_spark.merge.keys import KeyArray
from paimon_spark.merge.sections import file_key_ranges
from paimon_spark.metadata.commit import MAX_SEQUENCE
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.paths import POSTPONE_BUCKET
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import DELETION_VECTORS
from paimon_spark.types import DataType

_MAXIMA = (MAX_SEQUENCE, "sequence.generation.max-sequence-number")
Name = Callable[[ManifestEntry], str]
"""What breaches call a data file."""


def check_layout(state: State, schema: TableSchema, schema_ids: Iterable[int], name: Name) -> Iterator[Breach]:
    """The breaches of a state that its manifests show."""
    yield from _check_schemas(state, frozenset(schema_ids), name)
    yield from _check_bucket_numbers(state.live, name)
    yield from _check_places(state.live, name)
    yield from _check_key_ranges(state.live, [f.type for f in schema.key_fields], name)
    yield from _check_maxima(state, name)
    if schema.options.get_option(DELETION_VECTORS):
        yield from _check_no_deletes(state.live, name)


def _check_schemas(state: State, known: frozenset[int], name: Name) -> Iterator[Breach]:
    newest = state.snapshot.schema_id
    if newest not in known:
        yield Breach(Kind.SCHEMA, state.name, f"its schema {newest} does not exist")
    for entry in state.live:
        id_ = entry.file.schema_id
        if id_ not in known:
            yield Breach(Kind.SCHEMA, name(entry), f"its schema {id_} does not exist")
        elif id_ > newest:
            detail = f"its schema {id_} is younger than schema {newest} of {state.name}"
            yield Breach(Kind.SCHEMA, name(entry), detail)


def _check_bucket_numbers(live: Iterable[ManifestEntry], name: Name) -> Iterator[Breach]:
    numbers: dict[bytes, int] = {}
    for entry in live:
        total = entry.total_buckets
        if total <= 0:
            continue
        if entry.bucket >= total:
            yield Breach(Kind.BUCKETS, name(entry), f"it is in bucket {entry.bucket} of {total} buckets")
        if numbers.setdefault(entry.partition, total) != total:
            detail = f"it is one of {total} buckets, other files of its partition of {numbers[entry.partition]}"
            yield Breach(Kind.BUCKETS, name(entry), detail)


def _check_places(live: Iterable[ManifestEntry], name: Name) -> Iterator[Breach]:
    """A name is unique in its bucket, whatever the level: a file that moves leaves its old level."""
    levels: dict[tuple[bytes, int, str], int] = {}
    for entry in live:
        level = levels.setdefault((entry.partition, entry.bucket, entry.file.name), entry.file.level)
        if level != entry.file.level:
            yield Breach(Kind.ENTRY, name(entry), f"it is at level {level} and at level {entry.file.level}")


def _check_key_ranges(live: Sequence[ManifestEntry], types: Sequence[DataType], name: Name) -> Iterator[Breach]:
    """Key bounds are rows of the key, the least is not above the greatest, and levels from 1 up do not overlap."""
    members = [entry for entry in live if entry.bucket != POSTPONE_BUCKET and entry.file.row_count]
    try:
        mins, maxs = file_key_ranges([entry.file for entry in members], types)
    except CorruptFile:
        broken = {entry.identifier: problem for entry in members if (problem := _bounds_problem(entry, types))}
        for entry in members:
            if entry.identifier in broken:
                yield Breach(Kind.CORRUPT, name(entry), f"its key bounds: {broken[entry.identifier]}")
        members = [entry for entry in members if entry.identifier not in broken]
        mins, maxs = file_key_ranges([entry.file for entry in members], types)
    for i in np.flatnonzero(mins > maxs):
        yield Breach(Kind.BOUNDS, name(members[i]), "its least key is above its greatest")
    yield from _check_disjoint(members, mins, maxs, name)


def _bounds_problem(entry: ManifestEntry, types: Sequence[DataType]) -> str | None:
    try:
        file_key_ranges([entry.file], types)
    except CorruptFile as problem:
        return problem.detail
    return None


def _check_disjoint(members: Sequence[ManifestEntry], mins: KeyArray, maxs: KeyArray, name: Name) -> Iterator[Breach]:
    levels: dict[tuple[bytes, int, int], list[int]] = {}
    for i, entry in enumerate(members):
        if entry.file.level > 0:
            levels.setdefault((entry.partition, entry.bucket, entry.file.level), []).append(i)
    for (_, _, level), numbers in levels.items():
        order = np.asarray(numbers)[np.argsort(mins[numbers], kind="stable")].tolist()
        for left, right in pairwise(order):
            if not maxs[left] < mins[right]:
                detail = f"it shares keys with {members[right].file.name} at level {level}"
                yield Breach(Kind.OVERLAP, name(members[left]), detail)


def _check_maxima(state: State, name: Name) -> Iterator[Breach]:
    properties: Mapping[str, str] = state.snapshot.properties or {}
    for key in _MAXIMA:
        text = properties.get(key)
        if text is None:
            continue
        if not text.removeprefix("-").isdecimal():
            yield Breach(Kind.CORRUPT, state.name, f"property {key} = {text!r} is not a number")
            continue
        for entry in state.live:
            if entry.file.max_sequence > int(text):
                detail = f"it has sequence number {entry.file.max_sequence}, {state.name} records {text} as greatest"
                yield Breach(Kind.SEQUENCE, name(entry), detail)


def _check_no_deletes(live: Iterable[ManifestEntry], name: Name) -> Iterator[Breach]:
    for entry in live:
        if entry.file.level > 0 and entry.file.delete_row_count:
            detail = f"{entry.file.delete_row_count} deletes at level {entry.file.level}, where vectors mask old rows"
            yield Breach(Kind.DELETES, name(entry), detail)
