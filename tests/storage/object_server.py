"""ObjectServer: an S3 server of one bucket in this process, which can give wrong answers and no answers.

It knows what the storage uses: GET (with ranges), HEAD, PUT (with If-None-Match), DELETE and listing with a delimiter.
Google's XML API asks for all of these in the same way, but for the condition of a put (x-goog-if-generation-match), so
it is a server of Google's too.
``fault`` is asked before every request and may return

==============  ===================================================================================================
unavailable     503, and nothing is done
conflict        409, and nothing is done
lost            the request is done, and the connection closed without an answer
internal        the request is done, and the answer is 500
careless        the condition of a put is ignored
==============  ===================================================================================================
"""

from __future__ import annotations

import hashlib
import threading
import urllib.parse
from collections.abc import Callable
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

from paimon_spark.storage import object_store

BUCKET = "bucket"
Fault = Callable[[str, str], str | None]


class ObjectServer:
    """Serves until :meth:`stop`. ``objects`` has the bytes by key; ``requests`` what was asked, as (method, key);
    ``keys`` by whom, as (access key, session token)."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.keys: list[tuple[str, str | None]] = []
        self.fault: Fault = lambda method, key: None
        self.put_at: dict[str, datetime] = {}
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        # One that had this port before may still be connected to, and what was found out of it is not true of this.
        object_store._client.cache_clear()
        object_store._probed.cache_clear()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def options(self) -> dict[str, str]:
        """What a table needs to find this server as one of S3."""
        return {"s3.endpoint": self.endpoint, "s3.access-key": "CANARY-ACCESS", "s3.secret-key": "CANARY-SECRET"}

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: ObjectServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 2**16

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_HEAD(self) -> None:
        self._serve(self._get)

    def do_PUT(self) -> None:
        self._serve(self._put)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def _serve(self, action: Callable[[str, dict[str, str], bytes, bool], tuple[int, dict[str, str], bytes]]) -> None:
        url = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.owner.lock:
            self.owner.requests.append((self.command, key))
            signature = self.headers.get("Authorization") or ""
            signer = signature.partition("Credential=")[2].partition("/")[0]
            self.owner.keys.append((signer, self.headers.get("x-amz-security-token")))
            fault = self.owner.fault(self.command, key)
            if fault == "unavailable":
                answer: tuple[int, dict[str, str], bytes] = (503, {}, b"<Error><Code>SlowDown</Code></Error>")
            elif fault == "conflict":
                answer = (409, {}, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
            else:
                answer = action(key, query, body, fault == "careless")
        if fault == "lost":
            self.close_connection = True
            self.connection.close()
            return
        if fault == "internal":
            answer = (500, {}, b"<Error><Code>InternalError</Code></Error>")
        self._answer(*answer)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _get(self, key: str, query: dict[str, str], _: bytes, __: bool) -> tuple[int, dict[str, str], bytes]:
        if not key:
            return self._list(query.get("prefix", ""))
        data = self.owner.objects.get(key)
        if data is None:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        changed = formatdate(self._put_at(key).timestamp(), usegmt=True)
        headers = {"ETag": f'"{hashlib.md5(data).hexdigest()}"', "Last-Modified": changed}
        wanted = self.headers.get("Range")
        if wanted is None:
            return 200, {**headers, "Content-Length": str(len(data))}, data
        first, last = wanted.removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        return 206, headers, data[start:stop]

    def _list(self, prefix: str) -> tuple[int, dict[str, str], bytes]:
        files, directories = [], set()
        for key, data in sorted(self.owner.objects.items()):
            if key.startswith(prefix):
                name, below, _ = key[len(prefix) :].partition("/")
                if below:
                    directories.add(f"{prefix}{name}/")
                else:
                    changed = self._put_at(key).strftime("%Y-%m-%dT%H:%M:%S.000Z")
                    files.append(
                        f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
                        f'<LastModified>{changed}</LastModified><ETag>"x"</ETag></Contents>'
                    )
        prefixes = (f"<CommonPrefixes><Prefix>{escape(d)}</Prefix></CommonPrefixes>" for d in sorted(directories))
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join((*files, *prefixes))}</ListBucketResult>"
        return 200, {"Content-Type": "application/xml"}, body.encode()

    def _put(self, key: str, _: dict[str, str], body: bytes, careless: bool) -> tuple[int, dict[str, str], bytes]:
        only_new = self.headers.get("If-None-Match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"
        if only_new and key in self.owner.objects and not careless:
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        self.owner.objects[key] = body
        self.owner.put_at[key] = datetime.now(timezone.utc)
        return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""

    def _put_at(self, key: str) -> datetime:
        """When the object was put, and never later than it is asked for: who looks for files older than now finds all
        that were there; one that a test put in was always there."""
        return self.owner.put_at.get(key, datetime(2020, 1, 1, tzinfo=timezone.utc))

    def _delete(self, key: str, _: dict[str, str], __: bytes, ___: bool) -> tuple[int, dict[str, str], bytes]:
        self.owner.objects.pop(key, None)
        return 204, {}, b""
