"""Whether each key has at most one row in levels from 1 up that no deletion vector masks.

Readers of such tables (with deletion vectors, or the first-row engine) take these files one by one and merge nothing,
so a second row of a key would show. Files whose key ranges overlap are merged in bounded windows, by an engine that
counts instead of folding. Lone files have unique keys when their keys ascend, which is checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.check.places import Places
from paimon_spark.check.vectors import BucketVectors
from paimon_spark.files.key_values import KeyValues
from paimon_spark.files.reader import read_data_file
from paimon_spark.merge.key_groups import KeyGroups
from paimon_spark.merge.sections import file_key_ranges, sections, sorted_runs
from paimon_spark.merge.sorted_merge import merge_runs
from paimon_spark.metadata.manifest import ManifestEntry


def check_unique_keys(places: Places, entries: Sequence[ManifestEntry], vectors: BucketVectors) -> Iterator[Breach]:
    """The sections of a bucket in which a key has two rows.

    Requires: ``entries`` are the bucket's files from level 1 up, sound in themselves.

    :raises CorruptFile: a file cannot be read
    :raises NotFound: a file is gone
    """
    types = [f.type for f in places.schema.key_fields]
    mins, maxs = file_key_ranges([entry.file for entry in entries], types)
    for section in sections(mins, maxs):
        if len(section) == 1:
            continue
        runs = [[entries[section[i]] for i in run] for run in sorted_runs(mins[section], maxs[section])]
        files = [entry for run in runs for entry in run]
        first = 0
        inputs = []
        for run in runs:
            inputs.append(_run(places, run, vectors, first))
            first += len(run)
        census = _Census()
        for _ in merge_runs(inputs, places.schema.key_fields, census):
            pass
        if census.example is not None:
            key, (one, other) = census.example
            detail = (
                f"{census.count} of its keys have a row in another file too, such as {key} in {files[other].file.name}"
            )
            yield Breach(Kind.DUPLICATE, places.data_file_name(files[one]), detail)


def _run(places: Places, run: Sequence[ManifestEntry], vectors: BucketVectors, first: int) -> Iterator[KeyValues]:
    """The keys of the files of a run that are not masked; sequence numbers are the files' numbers from ``first`` on."""
    for number, entry in enumerate(run, first):
        for rows in read_data_file(
            places.metadata.storage,
            places.data_file(entry),
            entry.file,
            data_schema=places.metadata.schemas.get(entry.file.schema_id),
            fields=places.schema.key_fields,
            sequence=False,
            kind=False,
            deletion=vectors.get(entry.file.name),
        ):
            yield rows.with_sequence(np.full(len(rows), number, np.int64))


class _Census:
    """A merge engine that counts the keys with several rows and keeps one of them, with the first two of its files."""

    user_sequence = None

    def __init__(self) -> None:
        self.count = 0
        self.example: tuple[str, tuple[int, int]] | None = None

    def required_columns(self, wanted: Collection[str]) -> frozenset[str]:
        """None but those wanted."""
        return frozenset(wanted)

    def merge(self, rows: KeyValues, groups: KeyGroups) -> KeyValues:
        """No rows: nobody looks at them."""
        several = np.flatnonzero(groups.counts > 1)
        self.count += len(several)
        if len(several) and self.example is None:
            assert rows.sequence is not None
            start = groups.starts[several[0]]
            one, other = groups.order[start], groups.order[start + 1]
            key = str([column[int(one)].as_py() for column in rows.values.columns])
            self.example = (key, (int(rows.sequence[one]), int(rows.sequence[other])))
        return rows.slice(0, 0)
