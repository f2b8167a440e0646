"""A rest of a native read that is so small that the driver reads it when the scan is opened.

To plan and to run a Python source takes a tenth of a second of CPU, for Python workers that start, import this package
and open the table once more. A small level 0 is read in less. Its rows are part of Spark's plan then, as a local
relation, and what is wrong with them is an error when the scan is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from paimon_spark.options import MB
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split
from paimon_spark.spark.batches import outgoing, outgoing_schema
from paimon_spark.spark.reader import scan_schema

FILE_BYTES = 2 * MB
ROWS = 64 * 1024
ROW_BYTES = 16 * MB
"""What the driver reads at most: bytes and rows of data files, and bytes of the rows that come of them."""


def local_rows(session: Any, scan: Scan, splits: Sequence[Split]) -> Any | None:
    """The rows of ``splits`` as a DataFrame with nullable columns that holds them all; None when there are no splits,
    and when the rows are too many.

    :raises NotFound: a file is gone, because the snapshot has expired
    :raises CorruptFile: a file is damaged
    :raises InvalidInput: the merge engine refuses the records
    """
    if (
        not splits
        or sum(split.size for split in splits) > FILE_BYTES
        or sum(split.row_count for split in splits) > ROWS
    ):
        return None
    schema = spark.StructType([spark.StructField(f.name, f.dataType) for f in scan_schema(scan).fields])
    target = outgoing_schema(schema)
    batches: list[pa.RecordBatch] = []
    row_bytes = 0
    for split in splits:
        for batch in scan.read_split(split):
            batches.append(outgoing(batch, target))
            row_bytes += batches[-1].nbytes
            if row_bytes > ROW_BYTES:
                return None
    # In one task: else there are as many as the session has cores, and each gets all that the scan beside it masks.
    return session.createDataFrame(pa.Table.from_batches(batches, target), schema).coalesce(1)
