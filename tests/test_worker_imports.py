"""What a Spark worker pays before it reads or writes its first row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from paimon_spark.table import PaimonTable

PROGRAM = """
import sys
import pyarrow as pa
from paimon_spark.table import PaimonTable

scan = PaimonTable.open(sys.argv[1]).scan()
assert sum(batch.num_rows for batch in scan.batches()) == 3
write = PaimonTable.open(sys.argv[1]).new_write()
task = write.task(0)
for batch in scan.batches():
    task.write(batch)
write.commit([task.finish()])
print(*[name for name in ("pandas", "pyarrow.dataset", "pyspark") if name in sys.modules])
"""


def test_reading_and_writing_import_neither_pandas_nor_datasets_nor_pyspark(tmp_path: Path) -> None:
    """pyarrow imports pandas, where it is installed (as it is here), for many conversions from and to NumPy."""
    import pandas  # noqa: F401

    schema = pa.schema(
        [("p", pa.string()), ("id", pa.int64()), ("g", pa.int32()), ("name", pa.string()), ("d", pa.float64())]
    )
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "name", "bucket": "2"}
    table = PaimonTable.create(str(tmp_path / "t"), schema, ["p", "id"], ["p"], options)
    for name in ("a", None):
        names = pa.array([name] * 3, pa.string())
        columns = [["x", "x", "y"], [1, 2, 1], pa.array([1, None, 3], pa.int32()), names, [1.5, 0.0, None]]
        table.append(pa.table(columns, schema=schema))
    done = subprocess.run([sys.executable, "-c", PROGRAM, table.path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
