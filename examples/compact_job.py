"""Compact a table on a cluster, for a scheduler.

    spark-submit examples/compact_job.py <path> [--full] [--partition K=V]... [--option KEY=VALUE]...

Prints the table's levels afterwards. The exit code is 0 when the table is as it should be, also when there was nothing
to do, 3 when other compactions stood in the way (try again later), 4 when the storage did not say whether the commit
took place (look first), 2 for arguments that make no sense and 1 for any other failure. An error is one line; note that
spark-submit prints what a Python program says on either stream to its standard output. For master, memory and package
see spark-submit and conf/spark-defaults.conf.
"""

from __future__ import annotations

import logging
import sys

from paimon_spark.cli.main import main

if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("paimon_spark").setLevel(logging.INFO)
    sys.exit(main(["compact", "--spark", *sys.argv[1:]]))
