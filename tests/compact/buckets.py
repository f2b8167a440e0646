"""Random buckets, and compactions of them that change the file lists but open no file."""

from __future__ import annotations

from hypothesis import strategies as st

from paimon_spark.compact.levels import Levels
from paimon_spark.compact.task import CompactionPlan, Rewrite
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.options import Options
from tests.compact.script import KEY_TYPES, made_up_file

_RANGES = st.tuples(st.integers(0, 200), st.integers(0, 60)).map(lambda p: (p[0], p[0] + p[1]))
FLUSHES = st.lists(st.tuples(_RANGES, st.integers(1, 300), st.sampled_from([0, 0, 2, None])), min_size=1, max_size=25)

OPTIONS = st.fixed_dictionaries(
    {
        "num-sorted-run.compaction-trigger": st.sampled_from(["1", "2", "3", "5"]),
        "compaction.max-size-amplification-percent": st.sampled_from(["0", "25", "200", "100000"]),
        "compaction.size-ratio": st.sampled_from(["0", "1", "100"]),
        "target-file-size": st.sampled_from(["1", "100", "1000"]),
        "num-levels": st.sampled_from(["2", "3", "6"]),
    },
    optional={
        "deletion-vectors.enabled": st.just("true"),
        "force-lookup": st.just("true"),
        "merge-engine": st.sampled_from(["deduplicate", "partial-update"]),
        "sequence.field": st.just("v"),
        "compaction.force-up-level-0": st.just("true"),
        "compaction.total-size-threshold": st.just("200"),
        "compaction.incremental-size-threshold": st.just("300"),
    },
).map(Options)


def flushed(levels: Levels, number: int, bounds: tuple[int, int], size: int, deletes: int | None) -> Levels:
    """The levels with one more file of level 0, the newest."""
    return levels.apply([], [made_up_file(f"flush{number}", 0, size, *bounds, number, delete_row_count=deletes)])


def empty(options: Options) -> Levels:
    """A bucket without files."""
    return Levels.of([], options, KEY_TYPES)


def executed(plan: CompactionPlan, number: int) -> tuple[list[DataFile], list[DataFile]]:
    """The files that leave and the files that come when the plan is followed; each rewrite makes one file, from the
    least to the greatest key of what it merges."""
    before: list[DataFile] = []
    after: list[DataFile] = []
    for step in plan.steps:
        before += step.files
        if isinstance(step, Rewrite):
            low, high = min(map(least, step.files)), max(map(greatest, step.files))
            size, age = sum(f.size for f in step.files), max(f.max_sequence for f in step.files)
            deletes = 0 if plan.drop_delete else max(f.delete_row_count or 0 for f in step.files)
            name = f"merged{number}-{len(after)}"
            after.append(made_up_file(name, plan.output_level, size, low, high, age, delete_row_count=deletes))
        else:
            after.append(step.file.at_level(plan.output_level))
    return before, after


def least(file: DataFile) -> int:
    """The least key, a BIGINT: after the arity (4 bytes) and the null bits (8 bytes)."""
    return int.from_bytes(file.min_key[12:20], "little", signed=True)


def greatest(file: DataFile) -> int:
    """The greatest key."""
    return int.from_bytes(file.max_key[12:20], "little", signed=True)
