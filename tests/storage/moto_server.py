"""MotoServer: moto's S3 over HTTP, with one bucket."""

from __future__ import annotations

import logging
import urllib.request

BUCKET = "bucket"


class MotoServer:
    """Serves until :meth:`stop`."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
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
