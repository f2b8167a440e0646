"""MotoServer: moto's S3 over HTTP, with one bucket.

moto looks for the object of a conditional put, and then puts, in as many threads as there are requests: two of them can
both be told that theirs is the new object. S3 promises that one is, so here such puts take turns.
"""

from __future__ import annotations

import logging
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

BUCKET = "bucket"


class MotoServer:
    """Serves until :meth:`stop`."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        serving = self._server._server
        serving.app = one_conditional_put_at_a_time(serving.app)
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT")).close()

    @property
    def options(self) -> dict[str, str]:
        """What a table needs to find this server."""
        return {"s3.endpoint": self.endpoint, "s3.access-key": "CANARY-ACCESS", "s3.secret-key": "CANARY-SECRET"}

    def stop(self) -> None:
        """Stop serving."""
        self._server.stop()


def one_conditional_put_at_a_time(app: Callable[..., Any]) -> Callable[..., Any]:
    """``app``, a WSGI application, which then looks and puts in one step."""
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
            with lock:
                return app(environ, start_response)
        return app(environ, start_response)

    return answer
