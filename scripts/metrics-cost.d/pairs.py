"""Acquires and releases so often, one after the other: pairs.py HOST:PORT TIMES."""

import http.client
import json
import sys
import uuid

connection = http.client.HTTPConnection(sys.argv[1], timeout=60)


def call(method: str, path: str, body: object) -> None:
    connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    if answer.status not in (200, 201):
        sys.exit(f"{method} {path} was answered {answer.status}")


call("PUT", "/v1/semaphores/measured", {"capacity": 100})
for _ in range(int(sys.argv[2])):
    request = f"/v1/requests/{uuid.uuid4()}"
    call("PUT", request, {"permits": [{"semaphore": "measured"}], "ttl_ms": 60_000})
    call("DELETE", request, {})
