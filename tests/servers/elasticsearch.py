"""A real Elasticsearch server for tests, and a proxy that alters what it answers.

The server is not part of this repository. Where `ES_URL` names a user's own cluster, that is used; otherwise the test
server beside this repository, which needs Java 17.
"""

import http.client
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from servers.local_http import LocalHandler, LocalServer

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "elasticsearch"

# Nodes may take as long to be ready as a busy machine needs.
_PATIENT = ("--timeout", "900")

Reply = tuple[int, Any]
Alter = Callable[[str, str, bytes, Callable[[], Reply]], Reply]


def why_missing() -> str | None:
    """Why no server can be started here; None where one can."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home, "bin")) if home else None) is None:
        return "no Elasticsearch: set ES_URL, or install Java 17 (Debian: openjdk-17-jre-headless) for the test server"
    if not (FOLDER / "elasticsearch").is_file():
        return "no Elasticsearch: set ES_URL, or put the test server's folder beside this repository"
    return None


class Cluster:
    """Nodes of the test server; they end with this process at the latest."""

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        self.folder = folder
        self._nodes = nodes
        options = ["--nodes", str(nodes), "--wait", "green", "--port", "0", "--parent", str(os.getpid())]
        state = json.loads(self._run("start", *options, *_PATIENT, "--json"))
        self.urls: list[str] = [node["url"] for node in state["nodes"]]
        self.pids: list[int] = [node["pid"] for node in state["nodes"]]

    def _run(self, command: str, *options: str) -> str:
        full = [sys.executable, str(FOLDER / "elasticsearch"), command, "--dir", str(self.folder), *options]
        done = subprocess.run(full, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self, node: int) -> None:
        """End a node at once, as a power cut does; counted from 0."""
        os.kill(self.pids[node], signal.SIGKILL)

    def stop(self) -> None:
        self._run("stop", "--kill")


def load_guard() -> Any:
    """The proxy of the test server's folder that asks for credentials and speaks TLS."""
    spec = importlib.util.spec_from_file_location("elasticsearch_guard", FOLDER / "guard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.guard


class AlteringServer:
    """Answers as a function says, which may ask the real server behind it.

    The function takes method, path, body and a function that forwards them, and returns status and answer: JSON, or
    text for what is none. With `product` off, the server does not say that it is Elasticsearch.
    """

    def __init__(self, alter: Alter, to: str | None = None, *, product: bool = True) -> None:
        self.alter, self.to, self.product = alter, to, product
        self.paths: list[str] = []

    def __enter__(self) -> Self:
        self._server = LocalServer(_Altering, self)
        self.url = self._server.address.removesuffix("/v1")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()


class _Altering(LocalHandler):
    def answer(self) -> None:
        owner, body = self.server.owner, self.rfile.read(int(self.headers.get("Content-Length", 0)))
        owner.paths.append(f"{self.command} {self.path}")
        status, reply = owner.alter(self.command, self.path, body, lambda: self.forward(body))
        data = (reply if isinstance(reply, str) else json.dumps(reply)).encode()
        kind = "text/html" if isinstance(reply, str) else "application/vnd.elasticsearch+json;compatible-with=8"
        headers = {"Content-Type": kind, **({"X-Elastic-Product": "Elasticsearch"} if owner.product else {})}
        if self.command == "HEAD":
            self.wfile.write(self.head(status, len(data), headers))
        else:
            self.write(status, data, headers)

    def forward(self, body: bytes) -> Reply:
        owner = self.server.owner
        assert owner.to is not None
        target = urlsplit(owner.to)
        connection = http.client.HTTPConnection(target.hostname or "", target.port)
        headers = {name: self.headers[name] for name in ("Accept", "Content-Type") if name in self.headers}
        connection.request(self.command, self.path, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, json.loads(data) if data else ""

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815


def version_reply(number: str = "8.19.14") -> Reply:
    """What a server says about itself."""
    return 200, {"name": "node", "version": {"number": number}, "tagline": "You Know, for Search"}
