"""A real ``lockhouse serve`` on its own SQLite file."""

import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class Server:
    """``clock``, if given, is the server's, and so the store's.

    With ``asks_for_tokens`` callers need one, and calls of the harness have an administrator's.

    ``certificates`` is a folder with ``server.pem``, ``server.key`` and the authority's ``ca.pem``, for TLS.
    """

    def __init__(self, binary, folder, clock=None, asks_for_tokens=False, certificates=None):
        self._binary = binary
        self._folder = Path(folder)
        self._clock = clock
        self._certificates = certificates
        self._process = None
        self.address = None
        self.url = None
        self._token = self._first_token() if asks_for_tokens else None
        self.start()

    def start(self):
        environment = {"PATH": os.environ["PATH"], "RUST_LOG": "warn", "HOME": str(self._folder)}
        if self._clock:
            environment |= self._clock.environment
        command = [self._binary, "serve", "-o", "json", "--listen", "127.0.0.1:0", "--url", self._database()]
        if self._certificates:
            command += ["--tls-cert", self._certificates / "server.pem", "--tls-key", self._certificates / "server.key"]
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "server.log").open("a"),
        )
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start: {(self._folder / 'server.log').read_text()}")
        self.url = json.loads(line)["url"]
        url = urllib.parse.urlsplit(self.url)
        self.address = (url.hostname, url.port)

    def stop(self):
        """Stands still, as a machine that swaps does."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def call(self, method, path, body=None):
        """The status and the JSON of a call that goes straight to the server."""
        request = urllib.request.Request(f"{self.url.rstrip('/')}{path}", method=method)
        if self._token:
            request.add_header("authorization", f"Bearer {self._token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._trust()) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def _trust(self):
        return ssl.create_default_context(cafile=self._certificates / "ca.pem") if self._certificates else None

    def _database(self):
        return f"sqlite:{self._folder / 'lockhouse.db'}"

    def _first_token(self):
        """The first token is made on the database, before the server starts."""
        create = [self._binary, "token", "create", "admin", "--grant", "admin:*"]
        command = [*create, "-o", "json", "--url", self._database()]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(made.stdout)["secret"]


def binary():
    """The server that is tested: ``LOCKHOUSE_TEST_BINARY``, or what a release build made."""
    return os.environ.get("LOCKHOUSE_TEST_BINARY") or str(ROOT / "target" / "release" / "lockhouse")
