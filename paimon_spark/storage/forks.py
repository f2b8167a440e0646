"""Forks: a client that has threads must not be used in a process forked from one that has used it.

The threads do not exist there, and a call would wait for them for ever.
"""

from __future__ import annotations

import os

from paimon_spark.errors import StorageError

_first_users: dict[str, int] = {}


def refuse_forks(store: str) -> None:
    """Note that this process uses ``store`` (such as "an object store"), or refuse to.

    :raises StorageError: a process that this one was forked from has used it
    """
    first = _first_users.setdefault(store, os.getpid())
    if first != os.getpid():
        raise StorageError(
            f"process {os.getpid()} was forked from {first}, which had used {store} before, and so it cannot use one; "
            "start processes by 'spawn' or 'forkserver'"
        )
