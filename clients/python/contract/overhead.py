"""How long an acquire and its release take by the client, and as two bare calls on one connection."""

from __future__ import annotations

import json
import time
import uuid
from http.client import HTTPConnection
from typing import Any, Callable
from urllib.parse import urlsplit

import lockhouse


def measure(client: lockhouse.Client, url: str, semaphore: str, times: int) -> dict[str, list[float]]:
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port)
    body = json.dumps({"permits": [{"semaphore": semaphore, "count": 1}], "ttl_ms": 30000, "wait_ms": 0})

    def call(method: str, path: str, body: str | None = None) -> Any:
        connection.request(method, path, body, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())

    def bare() -> None:
        path = f"/v1/requests/{uuid.uuid4()}"
        call("PUT", path, body)
        call("DELETE", path)

    def by_client() -> None:
        client.request({semaphore: 1}, wait=0).acquire().release()

    took: dict[str, list[float]] = {"bare_us": [], "client_us": []}
    for _ in range(times):
        took["bare_us"].append(_took_us(bare))
        took["client_us"].append(_took_us(by_client))
    return took


def _took_us(what: Callable[[], None]) -> float:
    began = time.perf_counter()
    what()
    return (time.perf_counter() - began) * 1e6
