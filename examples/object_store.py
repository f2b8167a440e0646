"""A table on S3: four writers at once, not one commit lost.

    .venv/bin/python examples/object_store.py                      against moto, an S3 server that it starts itself
    .venv/bin/python examples/object_store.py s3://bucket/orders   against the real one; credentials from AWS_…

Each writer knows one column of the same thousand orders and upserts it in ten commits. All of them want the same next
snapshot all the time; the store gives it to one, and the others go on from there.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator

import pyarrow as pa

from paimon_spark import PaimonTable

COLUMNS = ("paid", "packed", "shipped", "reviewed")
ORDERS, COMMITS = 1000, 10
SCHEMA = pa.schema([("order_id", pa.int64()), *((name, pa.int64()) for name in COLUMNS)])


@contextlib.contextmanager
def local_s3() -> Iterator[dict[str, str]]:
    """An S3 server on this machine with one empty bucket, and the options for it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")).close()
    try:
        yield {"s3.endpoint": f"http://{host}:{port}", "s3.access-key": "any", "s3.secret-key": "any"}
    finally:
        server.stop()


def upsert(path: str, options: dict[str, str], column: str) -> None:
    """One writer: every tenth order in each of its commits."""
    for commit in range(COMMITS):
        orders = range(commit, ORDERS, COMMITS)
        rows = pa.table({"order_id": list(orders), column: [order * 10 for order in orders]})
        PaimonTable.open(path, options).append(rows)


def main(path: str, options: dict[str, str]) -> None:
    """Create, write at once, read, prove."""
    PaimonTable.create(path, SCHEMA, ["order_id"], options={"merge-engine": "partial-update", **options})
    start = time.perf_counter()
    writers = [threading.Thread(target=upsert, args=(path, options, column)) for column in COLUMNS]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    seconds = time.perf_counter() - start
    table = PaimonTable.open(path, options)
    rows = table.read().sort_by("order_id")
    for column in COLUMNS:
        assert rows.column(column).to_pylist() == [order * 10 for order in range(ORDERS)], column
    assert len(table.snapshots()) == len(COLUMNS) * COMMITS
    print(
        f"{len(table.snapshots())} commits by {len(writers)} writers in {seconds:.1f} s; {rows.num_rows} whole orders"
    )
    print(rows.slice(0, 3).to_pandas().to_string(index=False))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1], {})
    else:
        with local_s3() as found:
            main("s3://bucket/orders", found)
