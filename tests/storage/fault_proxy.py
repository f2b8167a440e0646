"""FaultProxy: stands before a server that does not fail, and fails for it.

``fault`` is asked before every request, as that of an ObjectServer is, and may return ``unavailable``, ``lost`` or
``internal``, with the same meanings.
"""

from __future__ import annotations

import http.client
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.storage.object_server import Fault

_NOT_PASSED_ON = ("transfer-encoding", "connection", "content-length")


class FaultProxy:
    """Passes requests on to ``upstream`` (``http://host:port``) until :meth:`stop`."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urllib.parse.urlsplit(upstream).netloc
        self.fault: Fault = lambda method, key: None
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 2**16

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.owner.fault(self.command, urllib.parse.unquote(self.path))
        if fault == "unavailable":
            self._answer(503, [], b"")
            return
        upstream = http.client.HTTPConnection(self.owner.upstream)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            upstream.request(self.command, self.path, body, {**headers, "Host": self.owner.upstream})
            response = upstream.getresponse()
            data = response.read()
        finally:
            upstream.close()
        if fault == "lost":
            self.close_connection = True
            self.connection.close()
        elif fault == "internal":
            self._answer(500, [], b"")
        else:
            length = response.getheader("Content-Length") if self.command == "HEAD" else None
            self._answer(response.status, response.getheaders(), data, length)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)
