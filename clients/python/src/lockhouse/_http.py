"""One HTTP exchange over a pooled connection: no retry, no meaning."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Callable, Optional, Union
from urllib.parse import urlsplit

from . import _fork
from ._version import VERSION

CALL_ID = "lockhouse-call-id"
CONNECT_TIMEOUT_S = 3.0
# A socket takes none of years.
LONGEST_TIMEOUT_S = 86_400.0
# Shorter than servers and proxies keep an idle connection.
IDLE_S = 15.0


class CancelledCallError(Exception):
    """The caller gave up on the call."""


class BrokenError(Exception):
    """There is no answer. ``was_sent`` says whether the call may have been done."""

    def __init__(self, what: str, was_sent: bool, may_retry: bool = True) -> None:
        super().__init__(what)
        self.was_sent = was_sent
        self.may_retry = may_retry


@dataclass(frozen=True)
class Call:
    """``path`` is percent-encoded. A function as ``body`` makes the body for each try."""

    method: str
    path: str
    body: Union[Mapping[str, Any], Callable[[], Mapping[str, Any]], None] = None
    headers: Optional[Mapping[str, str]] = None


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


class Cancel:
    """Ends a call that another thread is making: hangs up, and wakes its pauses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._socket: Optional[socket.socket] = None
        self._then: list[Callable[[], object]] = []

    def cancel(self) -> None:
        with self._lock:
            self._event.set()
            if self._socket is not None:
                _hang_up(self._socket)
            callbacks, self._then = self._then, []
        for callback in callbacks:
            callback()

    def then(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` when it is cancelled; at once if it is."""
        with self._lock:
            if not self._event.is_set():
                self._then.append(callback)
                return
        callback()

    def pause(self, seconds: float) -> None:
        if self._event.wait(seconds):
            raise CancelledCallError

    def watch(self, sock: Optional[socket.socket]) -> None:
        with self._lock:
            self._socket = sock
            if sock is not None and self._event.is_set():
                raise CancelledCallError

    def is_set(self) -> bool:
        return self._event.is_set()


class Transport:
    """Connections to one server, kept for the next call. Safe for many threads."""

    def __init__(self, url: str, token: Optional[str], ca_file: Optional[str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url takes http://HOST:PORT or https://HOST:PORT of a lockhouse server")
        if parts.username or parts.password:
            raise ValueError("url must not hold a user or a password; pass token=")
        if parts.query or parts.fragment:
            raise ValueError("url must not have a query or a fragment")
        self.shown = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._tls: Optional[ssl.SSLContext] = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=ca_file)
        self._headers = {"user-agent": f"lockhouse-python/{VERSION}", "accept": "application/json"}
        if token:
            if not re.fullmatch(r"[!-~]+", token):
                # Told here, as the error of http.client would show it.
                raise ValueError("token has characters that no token has, such as a space or a line's end")
            self._headers["authorization"] = f"Bearer {token}"
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._lock = threading.Lock()
        _fork.on_fork(self, Transport._forget_connections)

    def exchange(self, call: Call, deadline: float, cancel: Optional[Cancel] = None) -> Answer:
        """Sends one call, whose answer must come before ``deadline`` (monotonic)."""
        call_id = str(uuid.uuid4())
        headers = {**self._headers, **(call.headers or {}), CALL_ID: call_id}
        connection = self._connect(deadline, cancel)
        try:
            if cancel:
                cancel.watch(connection.sock)
            connection.sock.settimeout(min(max(deadline - time.monotonic(), 0.001), LONGEST_TIMEOUT_S))
            answer = self._once(connection, call, headers)
        except BrokenError:
            connection.close()
            if cancel and cancel.is_set():
                raise CancelledCallError from None
            raise
        except BaseException:
            connection.close()
            raise
        finally:
            if cancel:
                cancel.watch(None)
        # A proxy that mixes up answers: nothing on this connection, or on those beside it, is to be trusted.
        if answer.headers.get(CALL_ID, call_id) != call_id:
            connection.close()
            self.close()
            raise BrokenError(f"{self.shown} answered another call", was_sent=True)
        # The library has closed it after an answer that ends with it.
        if not connection.sock or answer.headers.get("connection", "").lower() == "close":
            connection.close()
        else:
            with self._lock:
                self._idle.append((connection, time.monotonic()))
        return answer

    def close(self) -> None:
        """Closes the connections that no call uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _once(self, connection: HTTPConnection, call: Call, headers: dict[str, str]) -> Answer:
        body = call.body() if callable(call.body) else call.body
        payload = None
        if body is not None:
            payload = json.dumps(body, ensure_ascii=False).encode()
            headers["content-type"] = "application/json"
        try:
            connection.request(call.method, self._path + call.path, payload, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            what = f"the connection to {self.shown} was lost: {error!r}"
            raise BrokenError(what, was_sent=True) from error
        told = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, told, content)

    def _connect(self, deadline: float, cancel: Optional[Cancel]) -> HTTPConnection:
        left = deadline - time.monotonic()
        if left <= 0:
            raise BrokenError(f"{self.shown} did not answer in time", was_sent=False)
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if time.monotonic() - since < IDLE_S and not _is_readable(connection.sock):
                return connection
            connection.close()
        timeout = min(CONNECT_TIMEOUT_S, left)
        if self._tls is not None:
            connection = HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            if not isinstance(error, OSError):
                raise
            may_retry = not isinstance(error, ssl.SSLCertVerificationError)
            raise BrokenError(f"{self.shown} can't be reached: {error}", False, may_retry) from error
        if cancel and cancel.is_set():
            connection.close()
            raise CancelledCallError
        return connection

    def _forget_connections(self) -> None:
        # In the child of a fork: the parent goes on with them.
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            sock = connection.sock
            if sock is not None:
                os.close(sock.detach())


def _is_readable(sock: socket.socket) -> bool:
    """Whether the server has closed an idle connection, or sent what nobody asked for."""
    poll = select.poll() if hasattr(select, "poll") else None
    if poll is None:
        return bool(select.select([sock], [], [], 0)[0])
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # The other thread's read returns at once; closing would not wake it.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
