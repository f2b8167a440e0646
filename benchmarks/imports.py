"""What a Spark worker pays to import this package, in fresh interpreters.

A worker has pyspark's side of the data source, NumPy and pyarrow anyway, so those are imported before the clock starts.
A task either reads or writes; the dearer of the two counts.
"""

from __future__ import annotations

import subprocess
from statistics import median

RUNS = 9
ARROW = "import numpy, pyarrow, pyarrow.parquet, pyarrow.compute"
READS = (f"{ARROW}, pyspark.sql.datasource", "import paimon_spark.spark.source, paimon_spark.spark.reader")
WRITES = (f"{ARROW}, pyspark.sql.datasource", "import paimon_spark.spark.source, paimon_spark.spark.writer")
PYPAIMON = (ARROW, "from pypaimon import CatalogFactory, Schema; import pypaimon.table.file_store_table")
PROGRAM = """
import time
{before}
start = time.process_time()
{timed}
print(1000 * (time.process_time() - start))
"""


def milliseconds(ours: str, pypaimon: str) -> tuple[float, float]:
    """The medians of CPU milliseconds for this package and for pypaimon, given the two interpreters."""
    times: dict[tuple[str, str], list[float]] = {READS: [], WRITES: [], PYPAIMON: []}
    for turn in range(RUNS + 1):
        for (before, timed), found in times.items():
            python = pypaimon if timed is PYPAIMON[1] else ours
            program = PROGRAM.format(before=before, timed=timed)
            answer = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
            if turn > 0:
                found.append(float(answer.stdout))
    return max(median(times[READS]), median(times[WRITES])), median(times[PYPAIMON])
