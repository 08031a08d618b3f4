"""Threads that cannot be started, and answers that come in an unlucky order."""

from __future__ import annotations

import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Callable, Optional

import pytest

import lockhouse
from lockhouse._ask import Asked
from lockhouse._keeper import KEEPER, Keeper
from lockhouse._wait import Wait
from lockhouse.status import RequestStatus, SemaphoreStatus


class _NoMore(threading.Thread):
    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_a_renewal_whose_thread_does_not_start_is_tried_again(
    client: lockhouse.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.define(name, 1)
    permit = client.request({name: 1}, ttl=1.2).acquire()
    run = KEEPER.run
    failed: list[object] = []

    def fails_once(job: Callable[[], object]) -> None:
        if not failed:
            failed.append(job)
            raise RuntimeError("can't start new thread")
        run(job)

    monkeypatch.setattr(KEEPER, "run", fails_once)
    time.sleep(2.5)
    assert failed
    assert not permit.lost
    permit.release()


class _Slow(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        time.sleep(3.0)


def test_a_log_that_blocks_delays_no_renewal(
    client: lockhouse.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.define(name, 2)
    lost = client.request({name: 1}, ttl=1.0).acquire()

    def fails(_: float) -> Optional[str]:
        raise lockhouse.UnavailableError("store_unavailable", "nobody answers")

    assert lost._hold is not None
    monkeypatch.setattr(lost._hold, "_renew", fails)
    slow = _Slow()
    logging.getLogger("lockhouse").addHandler(slow)
    try:
        kept = client.request({name: 1}, ttl=1.0).acquire()
        time.sleep(2.5)
        assert lost.lost
        assert not kept.lost
        kept.release()
    finally:
        logging.getLogger("lockhouse").removeHandler(slow)


def test_a_keeper_whose_thread_did_not_start_starts_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, done = Keeper(), threading.Event()
    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading, "Thread", _NoMore)
        with pytest.raises(RuntimeError):
            keeper.at(time.monotonic(), done.set)
    keeper.at(time.monotonic(), lambda: None)
    assert done.wait(5.0)


def test_each_release_without_an_acquire_adds_its_own(
    client: lockhouse.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    semaphore = lockhouse.Semaphore(name, 1, client=client)
    client.define(name, 1)
    both, status = threading.Barrier(2), client.status
    reads: list[str] = []

    def together(of: str) -> SemaphoreStatus:
        found = status(of)
        reads.append(of)
        if len(reads) <= 2:
            both.wait(10.0)
        return found

    monkeypatch.setattr(client, "status", together)
    threads = [threading.Thread(target=semaphore.release) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert status(name).capacity == 3


def test_a_grant_that_cannot_be_renewed_is_given_back(
    client: lockhouse.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.define(name, 1)

    def refused(*_: Any, **__: Any) -> RequestStatus:
        raise lockhouse.RefusedError("forbidden", "no")

    monkeypatch.setattr(client, "renew", refused)
    granted = Wait.granted

    # As the answer to a repeat, so the hold is renewed before it is handed out.
    def repeated(wait: Wait, until: float) -> Asked:
        asked = granted(wait, until)
        return Asked(200, asked.value, asked.before)

    monkeypatch.setattr(Wait, "granted", repeated)
    with pytest.raises(lockhouse.RefusedError):
        client.request({name: 1}, ttl=60.0).acquire()
    monkeypatch.undo()
    deadline = time.monotonic() + 5.0
    while client.status(name).in_use:
        assert time.monotonic() < deadline
        time.sleep(0.01)


class _Old(BaseHTTPRequestHandler):
    """Answers as HTTP/1.0 does: the end of the connection is that of the answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"semaphores":[],"next":null}')

    def log_message(self, *_: Any) -> None:
        pass


def test_a_server_that_closes_after_each_answer() -> None:
    with HTTPServer(("127.0.0.1", 0), _Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = lockhouse.Client(f"http://127.0.0.1:{server.server_port}")
        for _ in range(3):
            assert list(client.semaphores()) == []
        server.shutdown()
