"""An HTTP/1.1 proxy between one client and the server, which does what a scenario says.

A fault is for the next calls that match it: ``{"on": "PUT /v1/requests/", "do": "drop_reply", "times": 1}``.
With ``"times": null`` it is for all of them.
The link as a whole is ``up``, ``silent`` (what is sent arrives nowhere, and nothing comes back) or
``refused`` (no connection is taken, and those that there are end).
"""

import json
import re
import select
import socket
import ssl
import threading
import time

LOOK_S = 0.02


class Gone(Exception):
    """One side has hung up."""


class Proxy:
    def __init__(self, upstream, tls=None, history=None):
        self.upstream = upstream
        self._history = history
        self.calls = []
        self._tls = tls
        self._faults = []
        self._link = "up"
        self._lock = threading.Lock()
        self._open = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def add_fault(self, fault):
        with self._lock:
            self._faults.append({"times": 1, **fault})

    def unused_faults(self):
        return [fault for fault in self._faults if (fault["times"] or 0) > 0]

    def set_link(self, link):
        with self._lock:
            was, self._link = self._link, link
            if link == "refused" and was != "refused":
                # Closing would not wake the thread that accepts.
                self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                # The thread that serves a connection closes it. If it were closed here, that
                # thread could write to the next socket with the same number.
                for connection in list(self._open):
                    _hang_up(connection)
            elif was == "refused" != link:
                self._listener = socket.create_server(("127.0.0.1", self.port))
                threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.set_link("refused")

    def _accept(self):
        listener = self._listener
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        self._open.add(connection)
        upstream = None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                raw, connection = connection, self._tls.wrap_socket(connection, server_side=True)
                self._open.discard(raw)
                self._open.add(connection)
            if self._link == "refused":
                raise Gone
            while True:
                call = _read_message(connection)
                self._while_silent(connection)
                upstream = self._exchange(connection, upstream, call)
        except (Gone, OSError, ssl.SSLError):
            pass
        finally:
            self._open.discard(connection)
            _close(connection)
            if upstream:
                _close(upstream)

    def _exchange(self, connection, upstream, call):
        fault = self._fault_of(call)
        record = {"line": call.line, "headers": call.headers, "at": time.monotonic(), "answered_at": None}
        self.calls.append(record)
        do = fault["do"] if fault else "pass"
        if do == "cut":
            raise Gone
        if do == "answer":
            connection.sendall(_answer(fault, call))
            return upstream
        if do == "delay":
            time.sleep(fault["ms"] / 1000)
        upstream = upstream or self._to_server()
        answer = self._asked(connection, upstream, call)
        if do == "repeat":
            answer = self._asked(connection, upstream, call)
        if do == "drop_reply":
            raise Gone
        if do == "mix_up":
            answer = re.sub(rb"(?i)lockhouse-call-id: [^\r]*", b"lockhouse-call-id: another", answer)
        self._while_silent(connection)
        record["answered_at"] = time.monotonic()
        connection.sendall(answer)
        return upstream

    def _asked(self, connection, upstream, call):
        """The server's answer; a client that hangs up meanwhile is hung up on to the server too."""
        noted = self._history and self._history.call(call.line, call.body)
        try:
            upstream.sendall(call.raw)
            while not _is_ready(upstream):
                if _is_ready(connection) and not _peek(connection):
                    raise Gone
            answer = _read_message(upstream)
        except BaseException:
            if self._history:
                self._history.no_answer(noted)
            raise
        if self._history:
            self._history.answer(noted, answer.status, answer.body)
        return answer.raw

    def _fault_of(self, call):
        with self._lock:
            for fault in self._faults:
                if fault["times"] != 0 and call.line.startswith(fault["on"]):
                    if fault["times"]:
                        fault["times"] -= 1
                    return fault
        return None

    def _while_silent(self, connection):
        while self._link == "silent":
            if _is_ready(connection) and not _peek(connection):
                raise Gone

    def _to_server(self):
        host, port = self.upstream
        upstream = socket.create_connection((host, port), timeout=60)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return upstream


class Message:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.raw = head + b"\r\n\r\n" + body
        self.body = body
        self.line = lines[0].rsplit(" ", 1)[0]
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    @property
    def status(self):
        """Of an answer."""
        return int(self.line.split(" ")[1])


def _read_message(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        while not body.endswith(b"0\r\n\r\n"):
            body += _some(connection)
    while length and len(body) < int(length[1]):
        body += _some(connection)
    return Message(head, body)


def _some(connection):
    data = connection.recv(65536)
    if not data:
        raise Gone
    return data


def _answer(fault, call):
    body = json.dumps(fault["body"]).encode() if "body" in fault else fault.get("text", "").encode()
    headers = {"content-type": "application/json", **fault.get("headers", {})}
    if fault.get("with_call_id", True):
        headers["lockhouse-call-id"] = call.headers.get("lockhouse-call-id", "")
    lines = [f"HTTP/1.1 {fault['status']} Said", *(f"{name}: {value}" for name, value in headers.items())]
    lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _is_ready(connection):
    if isinstance(connection, ssl.SSLSocket) and connection.pending():
        return True
    try:
        return bool(select.select([connection], [], [], LOOK_S)[0])
    except ValueError:
        raise Gone from None


def _peek(connection):
    if isinstance(connection, ssl.SSLSocket):
        # Only an end makes it readable here, as clients do not pipeline.
        return b""
    return connection.recv(1, socket.MSG_PEEK)


def _hang_up(connection):
    """Wakes the thread that reads from it. It stays open."""
    try:
        # Not that of an SSLSocket, which would go on in plain text.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        pass


def _close(connection):
    _hang_up(connection)
    connection.close()
