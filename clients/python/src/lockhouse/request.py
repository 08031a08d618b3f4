"""Asking for permits on one or more semaphores."""

from __future__ import annotations

import math
import os
import socket
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from . import errors
from ._background_release import Release
from ._hold import Hold, Lost
from ._http import Cancel, CancelledCallError
from ._tasks import in_background
from ._wait import FOREVER, Wait
from .permit import Entered, Permit
from .status import RequestStatus

if TYPE_CHECKING:
    from .client import Client
    from .session import Session

DEFAULT_TTL_S = 30.0


class Request:
    """An all-or-nothing request, made by ``Client.request``, for ``with`` and ``async with``.

    The block never runs without the permits: ``with`` raises if they are not granted. A request without an
    ``external_id`` can be used again, also by several threads at once: each use is another grant.
    """

    def __init__(
        self,
        client: Client,
        permits: Mapping[str, int],
        *,
        external_id: Optional[str] = None,
        owner: Optional[str] = None,
        ttl: Optional[float] = DEFAULT_TTL_S,
        wait: Optional[float] = None,
        priority: int = 0,
        session: Optional[Session] = None,
    ) -> None:
        self._client = client
        self._external_id = external_id
        self._ttl = ttl
        self._wait = wait
        self._owner = owner
        self._session = session
        asked = [{"semaphore": name, "count": count} for name, count in permits.items()]
        self._body: dict[str, Any] = {"permits": asked}
        if owner is not None:
            self._body["owner"] = owner
        if ttl is not None:
            self._body["ttl_ms"] = milliseconds("ttl", ttl)
        if wait is not None and math.isnan(wait):
            raise _no_number("wait", wait)
        if priority:
            self._body["priority"] = priority
        self._entered = Entered()

    def acquire(self) -> Permit:
        """Waits for the permits and takes them, all at once.

        Raises ``ExhaustedError`` if there is no room within ``wait``, ``EndedError`` if the ``external_id``
        has ended before, ``UnavailableError`` if no server answers, and ``RefusedError`` for other refusals.
        """
        return self._acquire(Cancel())

    async def aacquire(self) -> Permit:
        """``acquire`` for asyncio. A task that is cancelled leaves the line, and keeps no permit."""
        cancel = Cancel()
        return await in_background(lambda: self._acquire(cancel), cancel.cancel, Permit.release)

    def _acquire(self, cancel: Cancel) -> Permit:
        is_ours = self._external_id is None
        external_id = self._external_id or str(uuid.uuid4())
        session = self._session
        forget = session.lost.then(lambda _: cancel.cancel()) if session else _nothing
        client = self._client
        path = client._path("requests", external_id)
        wait = Wait(client._transport, path, self._body, client.timeout, cancel)
        try:
            return self._granted(external_id, wait)
        except BaseException as error:
            is_clean = isinstance(error, errors.RefusedError) and not (error.maybe_applied or wait.is_granted)
            # It may have been granted. Only this caller knows its id, so nobody else could release it.
            if is_ours and not is_clean:
                ends_at = None if self._ttl is None else time.monotonic() + self._ttl
                self._release(external_id).in_background(ends_at, may_come_yet=True)
            if isinstance(error, CancelledCallError) and self._session is not None and self._session.lost:
                raise _session_ended(self._owner) from None
            raise
        finally:
            forget()

    def _granted(self, external_id: str, wait: Wait) -> Permit:
        client, session = self._client, self._session
        if session is not None and session.lost:
            raise _session_ended(self._owner)
        asked_at = time.monotonic()
        until = FOREVER if self._wait is None else asked_at + self._wait
        asked = wait.granted(until)
        request, sent_at = RequestStatus.of(asked.value), asked_at
        # From when the time to live surely runs: a grant of another moment is renewed first.
        ttl = request.ttl
        if ttl is not None and (asked.status != 201 or time.monotonic() - asked_at > ttl / 6):
            ttl = max(ttl, self._ttl or 0.0)
            sent_at = time.monotonic()
            request = client.renew(external_id, ttl=ttl)
        hold = None
        if ttl is not None:
            hold = Hold(f"request {external_id}", client._renewal(external_id, ttl), ttl, sent_at)
            lost = hold.lost
        else:
            lost = Lost(parent=session.lost if session else None)
        return Permit(request, lost, hold, self._release(external_id), session)

    def _release(self, external_id: str) -> Release:
        by = self._owner or this_process()
        return Release(self._client, external_id, by, is_ours=self._external_id is None)

    def __enter__(self) -> Permit:
        permit = self.acquire()
        self._entered.push(permit)
        return permit

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)

    async def __aenter__(self) -> Permit:
        permit = await self.aacquire()
        self._entered.push(permit)
        return permit

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        permit = self._entered.pop()
        await in_background(lambda: permit.__exit__(kind, error, trace))


def milliseconds(what: str, seconds: float) -> int:
    """A duration as the API has it. The server refuses one that is too short or too long."""
    if not math.isfinite(seconds * 1000):
        raise _no_number(what, seconds)
    return round(seconds * 1000)


def _no_number(what: str, value: float) -> errors.RefusedError:
    return errors.RefusedError("invalid_request", f"{what} must be a finite number of seconds, not {value}")


def _nothing() -> None:
    pass


def this_process() -> str:
    """Its host and its pid, as the other clients say it."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _session_ended(owner: Optional[str]) -> errors.EndedError:
    return errors.EndedError("session_ended", f'the session of "{owner}" has ended; begin another')
