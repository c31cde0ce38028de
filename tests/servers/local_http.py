"""What the servers that play a language model have in common: a quiet HTTP server on a free port of this machine."""

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LocalServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1 in a thread of its own, from when it is made until `stop`; handlers ask its `owner`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, handler: type["LocalHandler"], owner: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), handler)
        self.owner = owner
        self.address = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and hang up: by a connection that a client keeps, this server would answer for the next on its port."""
        self.shutdown()
        self.server_close()
        self._thread.join()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news in a test of faults."""


class LocalHandler(BaseHTTPRequestHandler):
    """Reads a request's JSON and writes an answer in one piece."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LocalServer

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the output of tests and campaigns clean."""

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def get(self) -> None:
        raise NotImplementedError

    def post(self) -> None:
        raise NotImplementedError

    def read_json(self) -> dict[str, Any]:
        """The body of the request; an empty one where it is no object."""
        found = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        return found if isinstance(found, dict) else {}

    def head(self, status: int, length: int, headers: dict[str, str] | None = None) -> bytes:
        """Status line and headers of an answer of so many bytes."""
        lines = {"Content-Type": "application/json", "Content-Length": str(length), **(headers or {})}
        head = f"HTTP/1.1 {status} {self.responses.get(status, ('',))[0]}\r\n"
        return (head + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n").encode()

    def write(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        """Send an answer: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        # Head and body in one write: in two, the client's delayed acknowledgement costs 40 ms.
        with suppress(OSError):
            self.wfile.write(self.head(status, len(data), headers) + data)
