"""The client of one server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Optional
from urllib.parse import quote, urlencode

from . import _ask, errors
from ._hold import Renewal
from ._http import BrokenError, Call, Transport
from .request import DEFAULT_TTL_S, Request, milliseconds
from .session import Session
from .status import CapacityChange, RequestStatus, SemaphoreStatus, Template, Waiter, time_of

DEFAULT_URL = "http://127.0.0.1:7117"


class Client:
    """The client of one Lockhouse server. Safe for many threads, and for ``fork``.

    ``url``, ``token`` and ``ca_file`` default to the environment's ``LOCKHOUSE_URL``, ``LOCKHOUSE_TOKEN`` and
    ``LOCKHOUSE_CA_FILE``; without a URL it is ``http://127.0.0.1:7117``. ``ca_file`` is a PEM file of the
    authority that signed the server's certificate. ``timeout`` bounds each call with all its retries, in
    seconds, beyond the wait that was asked for. Then the call raises ``UnavailableError``.

    Nothing is sent before the first call. All calls block: in asyncio, use ``async with`` or ``aacquire`` of
    a request, and ``asyncio.to_thread`` for the rest.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        ca_file: Optional[str] = None,
        timeout: float = 10.0,
    ) -> None:
        if not timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        self.timeout = timeout
        self._transport = Transport(*_where(url, token, ca_file))

    def request(
        self,
        permits: Mapping[str, int],
        *,
        external_id: Optional[str] = None,
        owner: Optional[str] = None,
        ttl: Optional[float] = DEFAULT_TTL_S,
        wait: Optional[float] = None,
        priority: int = 0,
    ) -> Request:
        """A request for ``{semaphore: count}``, all or nothing, for a ``with`` block or ``acquire``.

        Nothing is sent until then. ``wait`` is in seconds: 0 or less does not wait, ``None`` waits as long as
        it takes.

        ``external_id`` identifies the request, so that it can be repeated: every repeat gets the one grant.
        Callers that use one id hold it together, and the first release ends it for all. An id that has ended
        raises ``EndedError``. Without an ``external_id`` each use has a fresh one.

        ``owner`` is free text that listings show. ``ttl`` is how long the hold outlives its last renewal, in
        seconds, rounded to milliseconds. With ``None`` it is not renewed. It then lasts until it is released,
        even if this process dies, or until the server ends it as stale, by default after 24 hours.

        ``priority`` goes from -100 to 100. A waiter with a higher one is served first; each step is worth ten
        seconds of waiting.
        """
        return Request(
            self, permits, external_id=external_id, owner=owner, ttl=ttl, wait=wait, priority=priority
        )

    def session(self, owner: str, ttl: float = DEFAULT_TTL_S) -> Session:
        """Begins an owner's session: one heartbeat keeps all that is acquired through it.

        Two processes must not have sessions of the same owner at the same time: a goodbye releases all that
        the owner holds. Without a heartbeat for ``ttl`` seconds the server ends the session.
        """
        return Session(self, owner, ttl)

    # Semaphores

    def define(
        self,
        name: str,
        capacity: int,
        *,
        slots: bool = False,
        note: Optional[str] = None,
        changed_by: Optional[str] = None,
        expected_capacity: Optional[int] = None,
    ) -> SemaphoreStatus:
        """Creates a semaphore, or sets its capacity; 0 closes it. A smaller capacity revokes no permit.

        With ``slots`` each permit gets an index that no other live permit has: see ``Permit.slots``. ``note``
        and ``changed_by`` go to the ``history``. If the capacity is not ``expected_capacity``, the call is
        refused with ``capacity_changed``.
        """
        body = {
            "capacity": capacity,
            "slots": slots or None,
            "note": note,
            "changed_by": changed_by,
            "expected_capacity": expected_capacity,
        }
        return SemaphoreStatus.of(self._put_semaphore(name, body, {}))

    def define_if_missing(self, name: str, capacity: int, *, slots: bool = False) -> SemaphoreStatus:
        """Creates a semaphore unless there is one, which keeps its capacity."""
        body = {"capacity": capacity, "slots": slots or None}
        try:
            return SemaphoreStatus.of(self._put_semaphore(name, body, {"if-none-match": "*"}))
        except errors.RefusedError as refused:
            if refused.code != "capacity_changed":
                raise
            return self.status(name)

    def resize(self, name: str, capacity: int, *, note: Optional[str] = None) -> SemaphoreStatus:
        """Sets the capacity of a semaphore that must exist."""
        body = {"capacity": capacity, "note": note}
        return SemaphoreStatus.of(self._put_semaphore(name, body, {"if-match": "*"}))

    def status(self, name: str) -> SemaphoreStatus:
        """The capacity, the use and the waiters of a semaphore now."""
        return SemaphoreStatus.of(self._get(self._path("semaphores", name)))

    def semaphores(self, prefix: Optional[str] = None) -> Iterator[SemaphoreStatus]:
        """All semaphores, or those whose names begin with ``prefix``, by name."""
        return map(SemaphoreStatus.of, self._pages("/v1/semaphores", "semaphores", prefix=prefix))

    def holders(self, name: str) -> Iterator[RequestStatus]:
        """The requests that hold permits of a semaphore."""
        path = self._path("semaphores", name, "holders")
        return map(RequestStatus.of, self._pages(path, "holders"))

    def waiting(self, name: str) -> list[Waiter]:
        """The calls that wait for a semaphore, in the order in which they are served."""
        return [Waiter.of(it) for it in self._get(self._path("semaphores", name, "waiting"))["waiting"]]

    def history(self, name: str, limit: int = 100) -> list[CapacityChange]:
        """Changes of the capacity, newest first."""
        path = f"{self._path('semaphores', name, 'history')}?limit={limit}"
        return [CapacityChange.of(it) for it in self._get(path)["changes"]]

    def delete(self, name: str) -> None:
        """Deletes a semaphore of which nothing is held."""
        try:
            self._call("DELETE", self._path("semaphores", name))
        except errors.RefusedError as refused:
            # An earlier try, whose answer was lost, may have deleted it.
            if refused.code != "unknown_semaphore" or not refused.maybe_applied:
                raise

    # Requests

    def find(self, external_id: str) -> RequestStatus:
        """Finds a request by its id, held or ended. Refused with ``unknown_request`` if there is none."""
        return RequestStatus.of(self._get(self._path("requests", external_id)))

    def requests(
        self, *, owner: Optional[str] = None, semaphore: Optional[str] = None
    ) -> Iterator[RequestStatus]:
        """Live requests, of ``owner`` and on ``semaphore`` if they are given."""
        pages = self._pages("/v1/requests", "requests", owner=owner, semaphore=semaphore)
        return map(RequestStatus.of, pages)

    def renew(self, external_id: str, ttl: Optional[float] = None) -> RequestStatus:
        """Extends a hold to ``ttl`` seconds from now, or to its own TTL. A ``Permit`` renews itself."""
        body = {} if ttl is None else {"ttl_ms": milliseconds("ttl", ttl)}
        return RequestStatus.of(self._call("POST", self._path("requests", external_id, "renew"), body).value)

    def release(
        self, external_id: str, *, by: Optional[str] = None, deadline: Optional[float] = None
    ) -> bool:
        """Releases a request by its id, also one of another process. Returns whether this call ended it."""
        return self._end(external_id, {"by": by}, deadline)

    def force(self, external_id: str, *, by: Optional[str] = None) -> bool:
        """Ends anybody's request; whether this call did. Its holder learns it at the next renewal."""
        return self._end(external_id, {"force": "true", "by": by})

    # Owners and templates

    def heartbeat(self, owner: str, ttl: float, *, must_exist: bool = False) -> None:
        """Begins or continues an owner's session, for ``ttl`` seconds. A ``Session`` does so by itself.

        With ``must_exist`` it only continues one; if there is none, it raises ``EndedError``.
        """
        self._call("PUT", self._path("owners", owner), _heartbeat(ttl, must_exist))

    def goodbye(self, owner: str) -> int:
        """Releases all that the owner holds, and ends its session. Returns how many requests it released."""
        released: int = self._call("DELETE", self._path("owners", owner)).value["released"]
        return released

    def set_template(self, pattern: str, capacity: int, *, idle: Optional[float] = None) -> Template:
        """Has semaphores whose names match ``pattern``, such as ``customer/*``, created on first use.

        One that nobody has used for ``idle`` seconds is deleted.
        """
        body = {"capacity": capacity, "idle_ms": None if idle is None else milliseconds("idle", idle)}
        return Template.of(self._call("PUT", self._path("templates", pattern), _given(body)).value)

    def templates(self) -> list[Template]:
        """All templates."""
        return [Template.of(it) for it in self._pages("/v1/templates", "templates")]

    def delete_template(self, pattern: str) -> None:
        """Deletes a template; semaphores that it created stay."""
        self._call("DELETE", self._path("templates", pattern))

    def ready(self) -> bool:
        """Whether the server answers, and its store does. It makes one try."""
        deadline = time.monotonic() + self.timeout
        try:
            return self._transport.exchange(Call("GET", "/readyz"), deadline).status == 200
        except BrokenError:
            return False

    def close(self) -> None:
        """Closes idle connections. Permits that are held stay, and are renewed."""
        self._transport.close()

    def __repr__(self) -> str:
        return f"<lockhouse.Client of {self._transport.shown}>"

    def _end(
        self, external_id: str, query: Mapping[str, Optional[str]], deadline: Optional[float] = None
    ) -> bool:
        began = time.monotonic()
        path = self._path("requests", external_id) + "?" + urlencode(_given(query))
        asked = self._call("DELETE", path, deadline=deadline)
        wire = asked.value
        if wire["released"] or not asked.before or wire["end_reason"] not in ("released", "forced"):
            return bool(wire["released"])
        if wire.get("finished_at") is not None:
            return False  # The holder's own transaction released it.
        # A request that ended before this call began was not ended by an earlier try of the call.
        ended_ago = time_of(wire["decided_at"]) - time_of(wire["released_at"])
        return ended_ago.total_seconds() <= time.monotonic() - began

    def _renewal(self, external_id: str, ttl: float) -> Renewal:
        path = self._path("requests", external_id, "renew")
        return self._one_renewal(Call("POST", path, {"ttl_ms": milliseconds("ttl", ttl)}))

    def _session_renewal(self, owner: str, ttl: float) -> Renewal:
        return self._one_renewal(Call("PUT", self._path("owners", owner), _heartbeat(ttl, must_exist=True)))

    def _one_renewal(self, call: Call) -> Renewal:
        def renew(deadline: float) -> Optional[str]:
            try:
                _ask.once(self._transport, call, deadline)
            except _ask.FailedTryError as failure:
                error = failure.error
                if isinstance(error, errors.EndedError):
                    return error.end_reason or "owner_dead"
                if error.code == "unknown_request":
                    return "unknown"
                raise error from None
            return None

        return renew

    def _put_semaphore(self, name: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        return self._call("PUT", self._path("semaphores", name), _given(body), headers=headers).value

    def _pages(self, path: str, member: str, **filters: Optional[str]) -> Iterator[Mapping[str, Any]]:
        cursor: Optional[str] = None
        while True:
            query = urlencode(_given({**filters, "cursor": cursor}))
            page = self._get(f"{path}?{query}" if query else path)
            yield from page[member]
            cursor = page.get("next")
            if cursor is None:
                return

    def _get(self, path: str) -> Any:
        return self._call("GET", path).value

    def _call(
        self,
        method: str,
        path: str,
        body: Optional[Mapping[str, Any]] = None,
        *,
        headers: Optional[Mapping[str, str]] = None,
        deadline: Optional[float] = None,
    ) -> _ask.Asked:
        deadline = time.monotonic() + self.timeout if deadline is None else deadline
        return _ask.ask(self._transport, Call(method, path, body, headers), deadline)

    def _path(self, of: str, name: str, *below: str) -> str:
        if name in ("", ".", ".."):
            raise errors.RefusedError("invalid_request", f'a URL can\'t hold the name "{name}"; pick another')
        return "/".join(("/v1", of, quote(name, safe=""), *below))


def shared_client(url: Optional[str], token: Optional[str], ca_file: Optional[str]) -> Client:
    """One client for all semaphores of one server."""
    return _shared_client(*_where(url, token, ca_file))


@lru_cache(maxsize=64)
def _shared_client(url: str, token: Optional[str], ca_file: Optional[str]) -> Client:
    return Client(url, token, ca_file=ca_file)


def _where(
    url: Optional[str], token: Optional[str], ca_file: Optional[str]
) -> tuple[str, Optional[str], Optional[str]]:
    """The arguments, or else the environment's values at this call; an empty variable counts as unset."""
    return (
        url or os.environ.get("LOCKHOUSE_URL") or DEFAULT_URL,
        token or os.environ.get("LOCKHOUSE_TOKEN", "").strip() or None,
        ca_file or os.environ.get("LOCKHOUSE_CA_FILE") or None,
    )


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _heartbeat(ttl: float, must_exist: bool) -> dict[str, Any]:
    return {"ttl_ms": milliseconds("ttl", ttl), **({"must_exist": True} if must_exist else {})}
