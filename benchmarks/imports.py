"""What a Spark worker pays to import this package, in fresh interpreters.

A worker has pyspark's side of the data source, NumPy and pyarrow anyway, so those are imported before the clock starts.
So is what pyarrow itself imports for the first array that it makes: pandas, where it is installed.
"""

from __future__ import annotations

import subprocess
from statistics import median

RUNS = 9
OURS = (
    "import numpy, pyarrow, pyarrow.parquet, pyarrow.compute, pyspark.sql.datasource; pyarrow.array([0])",
    "import paimon_spark.spark.source, paimon_spark.spark.reader, paimon_spark.spark.writer",
)
PYPAIMON = (
    "import numpy, pyarrow, pyarrow.parquet, pyarrow.compute; pyarrow.array([0])",
    "from pypaimon import CatalogFactory, Schema; import pypaimon.table.file_store_table",
)
PROGRAM = """
import time
{before}
start = time.process_time()
{timed}
print(1000 * (time.process_time() - start))
"""


def milliseconds(ours: str, pypaimon: str) -> tuple[float, float]:
    """The medians of CPU milliseconds for this package and for pypaimon, given the two interpreters."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(RUNS + 1):
        for (before, timed), python, found in ((OURS, ours, times[0]), (PYPAIMON, pypaimon, times[1])):
            program = PROGRAM.format(before=before, timed=timed)
            answer = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
            if turn > 0:
                found.append(float(answer.stdout))
    return median(times[0]), median(times[1])
