"""Stores: every kind of store that a table may live on, and where a test finds an empty directory of it.

Some of them are servers that a test cannot start by itself. Those tests are skipped unless an environment variable says
where the server is::

    PAIMON_HDFS_URL=hdfs://localhost:9000/tests    with CLASSPATH, JAVA_HOME, and ARROW_LIBHDFS_DIR or HADOOP_HOME
    PAIMON_AZURITE=http://127.0.0.1:10000          npm install azurite; npx azurite-blob --inMemoryPersistence
    PAIMON_FAKE_GCS=http://127.0.0.1:4443          a server of Google's XML API, without authentication
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import urllib.error
import urllib.request
import uuid
from email.utils import formatdate
from pathlib import Path

import pytest

from paimon_spark.storage import hadoop
from tests.storage.name_node import LocalNameNode

STARTED_HERE = ("s3-moto", "s3-own", "gs-own", "hdfs-local")
ELSEWHERE = ("hdfs", "azure", "gs")
_VARIABLES = {
    "hdfs": ("PAIMON_HDFS_URL", "a directory of an HDFS"),
    "azure": ("PAIMON_AZURITE", "the address of an Azurite blob server"),
    "gs": ("PAIMON_FAKE_GCS", "the address of a server of Google's XML API"),
}
AZURITE_ACCOUNT = "devstoreaccount1"
# The key that every Azurite has.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

Place = tuple[str, dict[str, str]]
"""A directory that no other test uses, and the options to reach it."""


def place_of(store: str, request: pytest.FixtureRequest) -> Place:
    """A place of that store; the test is skipped when the store is elsewhere and nobody said where."""
    name = str(uuid.uuid4())
    if store == "hdfs":
        return f"{elsewhere(store)}/{name}", {}
    if store in _VARIABLES:
        return place_at(store, elsewhere(store))
    if store == "hdfs-local":
        name_node = LocalNameNode(request.getfixturevalue("tmp_path"))
        request.getfixturevalue("monkeypatch").setattr(hadoop, "connect", lambda host, user: name_node)
        return f"hdfs://local/{name}", {}
    server = request.getfixturevalue("moto" if store == "s3-moto" else "server")
    if store == "gs-own":
        return f"gs://bucket/{name}", gs_options(server.endpoint)
    return f"s3://bucket/{name}", server.options


def place_at(store: str, endpoint: str) -> Place:
    """A place of the server ``azure`` or ``gs`` at that address, whose bucket is made if there is none."""
    if store == "azure":
        _make_container(endpoint)
        options = {"azure.endpoint": f"{endpoint}/{AZURITE_ACCOUNT}", "azure.account-key": AZURITE_KEY}
        return f"abfss://bucket@{AZURITE_ACCOUNT}.dfs.core.windows.net/{uuid.uuid4()}", options
    _ask(f"{endpoint}/storage/v1/b?project=any", "POST", {"Content-Type": "application/json"}, b'{"name":"bucket"}')
    return f"gs://bucket/{uuid.uuid4()}", gs_options(endpoint)


def gs_options(endpoint: str) -> dict[str, str]:
    """What a table needs to find a server of Google's API that asks for no token."""
    key = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    return {"gs.endpoint": endpoint, "gs.service-account-key": json.dumps(key)}


def elsewhere(store: str) -> str:
    """Where the environment says that the store is; the test is skipped when it does not."""
    variable, what = _VARIABLES[store]
    found = os.environ.get(variable, "").rstrip("/")
    if not found:
        pytest.skip(f"{variable} is not set to {what} ({Path(__file__).name} says how to get one)")
    return found


def _make_container(endpoint: str) -> None:
    place = f"/{AZURITE_ACCOUNT}/bucket"
    told = f"x-ms-date:{formatdate(usegmt=True)}\nx-ms-version:2021-08-06"
    text = "PUT" + "\n" * 12 + f"{told}\n/{AZURITE_ACCOUNT}{place}\nrestype:container"
    digest = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    headers = dict(line.split(":", 1) for line in told.splitlines())
    headers["Authorization"] = f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    _ask(f"{endpoint}{place}?restype=container", "PUT", {**headers, "Content-Length": "0"}, None)


def _ask(url: str, method: str, headers: dict[str, str], body: bytes | None) -> None:
    """Make a bucket; one that is there is fine."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as answer:
        if answer.code != 409:
            raise
