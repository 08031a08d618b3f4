"""The proxy ends connections that other threads serve."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from harness import proxy
from harness.proxy import Proxy


def test_a_connection_is_closed_by_the_thread_that_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number would be another file's: the first byte of a pipe to a child that starts was once a TLS alert."""
    serving: list[socket.socket] = []
    may_go_on = threading.Event()

    def read(connection: socket.socket) -> proxy.Message:
        serving.append(connection)
        may_go_on.wait(10)
        raise proxy.Gone

    monkeypatch.setattr(proxy, "_read_message", read)
    between = Proxy(("127.0.0.1", 9))
    with socket.create_connection(("127.0.0.1", between.port)) as client:
        until(lambda: serving != [])
        between.close()
        assert client.recv(1) == b""
        assert serving[0].fileno() != -1
        may_go_on.set()
        until(lambda: serving[0].fileno() == -1)


def until(condition) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
