"""Compaction right after a write, on the driver, of the buckets that the write has touched.

Tasks only add files to level 0, for none of them has a bucket to itself. What a table's options want to follow is done
when the write is published. To find out whether a bucket is due takes the manifests alone. A
``write-only`` table is left to compaction jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from paimon_spark.compact.compaction import compact_table
from paimon_spark.options import WRITE_ONLY
from paimon_spark.write.table_write import CommitMessage, TableWrite

log = logging.getLogger("paimon_spark")


def compact_touched(write: TableWrite, reported: Sequence[CommitMessage]) -> None:
    """Compact the buckets in ``reported`` that need it, unless the table is ``write-only``.

    The write is published and stays so, whatever happens here: a failure is a warning in the log, and the next write
    or compaction of the bucket finds as much to do as this one did.
    """
    if write.schema.options.get_option(WRITE_ONLY):
        return
    touched = {(entry.partition, entry.bucket) for message in reported for entry in message.entries}
    try:
        if touched:
            compact_table(write.metadata, write.schema, buckets=touched, patient=True)
    except Exception as problem:
        log.warning(
            "%s: the write is committed, but the compaction after it failed: %s: %s",
            write.metadata.paths.root,
            type(problem).__name__,
            problem,
        )
