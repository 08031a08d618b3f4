"""Acquires and releases by the client that openapi-python-client generates."""

import sys

from lockhouse_client import Client
from lockhouse_client.api.requests import acquire, release
from lockhouse_client.api.semaphores import define_semaphore
from lockhouse_client.models import Acquire, AskedPermit, Define, Released, Request

client = Client(base_url=sys.argv[1])
define_semaphore.sync(name="python", client=client, body=Define(capacity=1))
ask = Acquire(permits=[AskedPermit(semaphore="python")], ttl_ms=60_000)
granted = acquire.sync(external_id="python", client=client, body=ask)
if not isinstance(granted, Request) or granted.permits[0].fence != 1:
    raise SystemExit(f"not granted: {granted}")
released = release.sync(external_id="python", client=client)
if not isinstance(released, Released) or not released.released:
    raise SystemExit(f"not released: {released}")
