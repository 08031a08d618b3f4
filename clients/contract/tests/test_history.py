"""The checker of histories reads the clients' notes, and finds a client that reports something untrue."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from harness.history import ClientHistory, History
from harness.languages import build_checker, checker
from harness.server import Server, binary

ASK = {"permits": {"gpu": 5, "customer/a": 1}, "owner": "ann", "ttl_ms": 60_000, "wait_ms": 0}
HELD = [{"semaphore": name, "count": count} for name, count in ASK["permits"].items()]
SHORT_MS = 200


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build_checker()


class Store:
    """A server with a semaphore and a template, and the notes of the calls that it was sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "history"
        self.notes.mkdir()
        self._server = Server(binary(), folder)
        self._wire = History(self.notes / "wire", 1000)
        self.client = ClientHistory(self.notes / "client", 1001)
        self._server.call("PUT", "/v1/semaphores/gpu", {"capacity": 8, "slots": True})
        self._server.call("PUT", "/v1/templates/customer%2F*", {"capacity": 2})
        self._wire.defines("gpu", 8)
        self._wire.sets_template("customer/*", 2)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        noted = self._wire.call(f"{method} {path}", json.dumps(body))
        status, answer = self._server.call(method, path, body)
        self._wire.answer(noted, status, json.dumps(answer))
        return answer

    def acquire(self, id: str, **other: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The ask, and the answer as a client gives it."""
        ask = ASK | other
        answer = self.call("PUT", f"/v1/requests/{id}", ask | {"permits": HELD})
        fences = {it["semaphore"]: it["fence"] for it in answer["permits"]}
        slots = {it["semaphore"]: it["slots"] or [] for it in answer["permits"]}
        return ask, {"external_id": id, "fences": fences, "slots": slots}

    def says_held(self, ask: dict[str, Any], answer: dict[str, Any]) -> None:
        now = time.monotonic()
        self.client.holds(ask, answer, now, now)

    def broken(self) -> list[str]:
        self._server.kill()
        command = [str(checker()), str(self.notes), f"sqlite:{self.folder / 'lockhouse.db'}"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        *found, _ = told.stdout.splitlines() or [""]
        assert (told.returncode, told.stderr) == (int(bool(found)), "")
        return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_true_history_of_every_kind_of_call_breaks_nothing(store: Store) -> None:
    first = store.acquire("a")
    store.says_held(*first)
    store.acquire("a")
    store.call("PUT", "/v1/requests/a", ASK | {"owner": "bob", "permits": HELD})
    store.call("PUT", "/v1/requests/b", ASK | {"permits": [{"semaphore": "gpu", "count": 7}]})
    store.call("PUT", "/v1/requests/c", ASK | {"permits": [{"semaphore": "gpu", "count": 9}]})
    store.call("PUT", "/v1/requests/d", ASK | {"permits": [{"semaphore": "unknown", "count": 1}]})
    store.call("POST", "/v1/requests/a/renew", {"ttl_ms": 60_000})
    store.call("POST", "/v1/requests/nobody/renew", {"ttl_ms": 60_000})
    store.says_held(*first)
    noted = store.client.releases("a")
    store.call("DELETE", "/v1/requests/a")
    store.client.released(noted)
    store.call("DELETE", "/v1/requests/a")
    store.call("PUT", "/v1/requests/a", ASK | {"permits": HELD})
    store.acquire("e")
    store.call("DELETE", "/v1/requests/e?force=true&by=ann")
    store.client.dies()
    assert store.broken() == []


def test_slots_that_the_store_does_not_have_are_found(store: Store) -> None:
    ask, answer = store.acquire("a")
    assert answer["slots"]["gpu"] == [0, 1, 2, 3, 4]
    store.says_held(ask, answer | {"slots": {"gpu": [0, 1, 2, 3, 5], "customer/a": []}})
    assert "slots were told" in "".join(store.broken())


def test_another_fence_is_found(store: Store) -> None:
    ask, answer = store.acquire("a")
    store.says_held(ask, answer | {"fences": answer["fences"] | {"gpu": 7}})
    assert "another fence" in "".join(store.broken())


def test_a_hold_that_no_call_got_is_found(store: Store) -> None:
    ask, answer = store.acquire("a")
    store.says_held(ask, answer | {"external_id": "b"})
    assert "b is not there" in "".join(store.broken())


def test_a_hold_that_goes_on_after_its_release_is_found(store: Store) -> None:
    held = store.acquire("a")
    store.call("DELETE", "/v1/requests/a")
    store.says_held(*held)
    assert "a was over, and is granted" in "".join(store.broken())


def test_a_hold_that_goes_on_after_its_time_is_found(store: Store) -> None:
    held = store.acquire("a", ttl_ms=SHORT_MS)
    store.says_held(*held)
    time.sleep(2 * SHORT_MS / 1000)
    store.says_held(*held)
    assert "a was over, and is granted" in "".join(store.broken())


def test_a_release_that_the_server_never_got_is_found(store: Store) -> None:
    store.acquire("a")
    store.client.released(store.client.releases("a"))
    assert "a was told to be over, and is live" in "".join(store.broken())
