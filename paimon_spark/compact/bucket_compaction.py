"""Compaction of one bucket, without the commit: from the bucket's state to what shall become of its files.

A bucket may be compacted several times in a row before it is committed, until the picker has no wish left. What one
round makes and a later one replaces never reaches the table; its files are deleted right away.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from paimon_spark.compact.bucket_files import BucketFiles
from paimon_spark.compact.bucket_state import BucketState
from paimon_spark.compact.compact_options import gentle_interval
from paimon_spark.compact.deletion_maintainer import DeletionVectorMaintainer
from paimon_spark.compact.levels import Levels
from paimon_spark.compact.lookup_rewriter import LookupRewriter
from paimon_spark.compact.older_versions import OlderVersions
from paimon_spark.compact.picker import CompactionUnit, PickerState, needs_lookup, pick, pick_full
from paimon_spark.compact.rewriter import Rewriter
from paimon_spark.compact.task import Rewrite, plan_task
from paimon_spark.errors import PaimonError
from paimon_spark.files.writer import local_millis
from paimon_spark.lookup import Bucket, LookupFileCache, LookupLevels, ValueProcessor, process_cache
from paimon_spark.merge.engine import newest_decides
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.index_manifest import IndexEntry
from paimon_spark.metadata.manifest import ADD, Identifier, ManifestEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata
from paimon_spark.options import DELETION_VECTORS


@dataclass(frozen=True)
class CompactionResult:
    """What a compaction of a bucket made of ``state``. Travels between processes.

    ``before`` are live entries to remove, ``after`` entries to add; a file that only moves to another level is in
    both. ``vectors`` is the new index file with the bucket's deletion vectors, None when they have not changed.
    """

    state: BucketState
    before: tuple[ManifestEntry, ...]
    after: tuple[ManifestEntry, ...]
    vectors: IndexEntry | None

    def fits(self, state: BucketState | None) -> bool:
        """Whether this is still what a compaction of the bucket could have made, its state being that one now: new
        files at level 0 do no harm."""
        if state is None or state.vectors_file != self.state.vectors_file:
            return False
        now = {entry.identifier for entry in state.entries}
        return now.issuperset(entry.identifier for entry in self.before) and _upper(state) == _upper(self.state)

    def discard(self, metadata: TableMetadata, schema: TableSchema) -> None:
        """Delete the files that the compaction wrote; one that cannot be deleted is left over, unreferenced.

        Requires: no snapshot has them.
        """
        old = {entry.file.name for entry in self.before}
        files = BucketFiles(metadata, schema, self.state.partition, self.state.bucket)
        for entry in self.after:
            if entry.file.name not in old:
                with contextlib.suppress(PaimonError):
                    files.delete(entry.file.name)
        if self.vectors is not None:
            with contextlib.suppress(PaimonError):
                metadata.storage.delete(metadata.indexes.index_path(self.vectors, schema))


def _upper(state: BucketState) -> set[Identifier]:
    return {entry.identifier for entry in state.entries if entry.file.level > 0}


def compact_bucket(
    metadata: TableMetadata,
    schema: TableSchema,
    state: BucketState,
    *,
    full: bool = False,
    patient: bool = False,
    cache: LookupFileCache | None = None,
) -> CompactionResult | None:
    """Compact a bucket; None when there is nothing to do.

    ``full`` leaves one sorted run without deleted rows; otherwise the picker's rules decide, again and again, until
    they have no wish left, which in a table that looks older versions up means that level 0 is empty. ``patient`` lets
    a table of ``lookup-compact`` = gentle keep its level 0 until it has as many files as the option's interval.
    ``cache`` holds the local lookup files (None: this process's own). When this fails, what it wrote is deleted.

    :raises InvalidInput: the merge engine refuses the records
    :raises NotFound: a file is gone, because another compaction has replaced it and its snapshot has expired
    :raises CorruptFile: a file or a vector is damaged
    :raises StorageError: the storage or the local disk failed
    """
    compaction = _Compaction(metadata, schema, state, cache)
    try:
        if full:
            compaction.run_full()
        else:
            compaction.run(patient)
        result = compaction.result()
    except BaseException:
        compaction.discard()
        raise
    compaction.close()
    return result


def is_due(schema: TableSchema, state: BucketState, *, full: bool = False, patient: bool = False) -> bool:
    """Whether :func:`compact_bucket` would find something to do. Opens no file.

    :raises InvalidOption: an option of compaction has a value that is not allowed
    """
    levels = _levels(schema, state)
    if full:
        return pick_full(levels, schema.options, state.vectors.__contains__) is not None
    return (
        pick(levels, schema.options, _picker_state(schema, levels, patient), needs_lookup(schema.options)) is not None
    )


def _levels(schema: TableSchema, state: BucketState) -> Levels:
    return Levels.of([e.file for e in state.entries], schema.options, [f.type for f in schema.key_fields])


def _picker_state(schema: TableSchema, levels: Levels, patient: bool) -> PickerState:
    """The state of the picker at the first pick.

    Java's writer counts in memory how often it left level 0 alone. There is no such writer here; each commit leaves a
    file at level 0, so these are counted. Without patience the time has come anyway.
    """
    tries = len(levels.level(0)) if patient else gentle_interval(schema.options)
    return replace(PickerState.of(levels, local_millis()), gentle_tries=tries - 1)


class _Compaction:
    """A bucket under compaction: its levels and vectors by now, and the files made so far."""

    def __init__(
        self, metadata: TableMetadata, schema: TableSchema, state: BucketState, cache: LookupFileCache | None
    ) -> None:
        self._schema = schema
        self._state = state
        self._cache = cache
        self._options = schema.options
        self._levels = _levels(schema, state)
        self._files = BucketFiles(metadata, schema, state.partition, state.bucket)
        self._vectors = DeletionVectorMaintainer(metadata, self._levels.files, state.vectors)
        self._looks_up = needs_lookup(schema.options)
        self._lookup: LookupLevels | None = None
        self._created: set[str] = set()

    def run(self, patient: bool) -> None:
        """Compact until the picker has no wish left."""
        state = _picker_state(self._schema, self._levels, patient)
        while unit := pick(self._levels, self._options, state, self._looks_up):
            levels = self._levels
            if not self._compact(unit):
                return
            state = state.after(unit, levels, local_millis())
            if not patient:
                state = replace(state, gentle_tries=gentle_interval(self._options) - 1)

    def run_full(self) -> None:
        """Leave one sorted run, without deleted rows."""
        if unit := pick_full(self._levels, self._options, self._vectors.has):
            self._compact(unit)

    def result(self) -> CompactionResult | None:
        """What became of the bucket; files that were made and replaced again are deleted."""
        final = {file.name: file for file in self._levels.files}
        for name in self._created - final.keys():
            self._files.delete(name)
        self._created &= final.keys()
        old = {entry.file.name: entry for entry in self._state.entries}
        before = tuple(e for name, e in old.items() if name not in final or final[name].level != e.file.level)
        moved = {entry.file.name for entry in before}
        after = tuple(self._added(file, old) for name, file in final.items() if name in moved or name not in old)
        vectors = None
        if self._vectors.modified:
            vectors = self._vectors.write(self._state.partition, self._state.bucket, self._schema)
        return CompactionResult(self._state, before, after, vectors) if before or after or vectors else None

    def discard(self) -> None:
        """Delete everything that this compaction made."""
        for name in self._created:
            with contextlib.suppress(PaimonError):
                self._files.delete(name)
        if self._lookup is not None:
            self._lookup.update([e.file for e in self._state.entries])
        self.close()

    def close(self) -> None:
        """Leave the lookup files to the next compaction of the bucket, in this process or another."""
        if self._lookup is not None:
            self._lookup.close(keep=True)

    def _added(self, file: DataFile, old: dict[str, ManifestEntry]) -> ManifestEntry:
        if file.name in old:
            return replace(old[file.name], kind=ADD, file=file)
        state = self._state
        return ManifestEntry(ADD, state.partition, state.bucket, state.entries[0].total_buckets, file)

    def _compact(self, unit: CompactionUnit) -> bool:
        """Carry a unit out; False when its files are as they should be already."""
        plan = plan_task(unit, self._levels, self._options, self._looks_up)
        rewriter = Rewriter(self._files, self._vectors, plan.output_level, plan.drop_delete)
        lookup = self._lookup_rewriter(rewriter) if any(step.lookup for step in plan.steps) else None
        after: list[DataFile] = []
        for step in plan.steps:
            if not isinstance(step, Rewrite):
                if step.lookup and lookup is not None:
                    lookup.upgrade(step.file)
                after.append(step.file.at_level(plan.output_level))
                continue
            made = lookup.rewrite(step) if step.lookup and lookup is not None else rewriter.rewrite(step.sections)
            self._created.update(file.name for file in made)
            after += made
            for file in step.files:
                self._vectors.remove(file.name)
        self._levels = self._levels.apply((*plan.rewritten, *plan.upgraded), after)
        if self._lookup is not None:
            self._lookup.update(self._levels.files)
        return bool(plan.steps)

    def _lookup_rewriter(self, rewriter: Rewriter) -> LookupRewriter:
        options = self._options
        upper = [run for run in self._levels.runs if run.level > rewriter.output_level]
        older = OlderVersions(self._files, self._vectors, upper, self._open_lookup)
        return LookupRewriter(rewriter, older, not newest_decides(options), options.get_option(DELETION_VECTORS))

    def _open_lookup(self) -> LookupLevels:
        if self._lookup is None:
            files = self._files
            bucket = Bucket(files.directory, files.metadata.storage, self._schema, files.path, files.data_schema)
            cache = process_cache(self._options) if self._cache is None else self._cache
            self._lookup = LookupLevels(bucket, self._levels.files, ValueProcessor(None, True), cache)
        return self._lookup
