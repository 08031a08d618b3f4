"""Semaphores that stand in for ``threading``'s and ``asyncio``'s."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import uuid
from collections import deque
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar

from . import errors
from ._fork import on_fork
from ._http import Cancel
from ._tasks import in_background
from .client import Client, shared_client
from .permit import Entered, Permit
from .request import DEFAULT_TTL_S, Request

F = TypeVar("F", bound=Callable[..., Any])

LATER = "the body of a {} runs after the call; hold the permit by a block in the body"


def refuse_if_later(function: Callable[..., Any]) -> None:
    """Raises ``TypeError`` for a function whose body does not run within the call."""
    if _is(inspect.iscoroutinefunction, function):
        raise TypeError("a coroutine function takes an AsyncSemaphore")
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise TypeError(LATER.format("generator"))


def done(result: Any) -> Any:
    """Returns the result of a decorated function. Raises ``TypeError`` if its work has yet to run."""
    if inspect.iscoroutine(result):
        result.close()  # Otherwise Python warns that nobody awaited it.
        raise TypeError(LATER.format("coroutine"))
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(LATER.format("generator"))
    return result


def _is(kind: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    """Whether `kind` holds for a function, or for the `__call__` of a callable object."""
    return kind(function) or kind(type(function).__call__)


class _Named:
    """The common part of the semaphores of threads and of tasks."""

    def __init__(
        self,
        name: str,
        value: Optional[int] = None,
        *,
        client: Optional[Client] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        owner: Optional[str] = None,
        ttl: float = DEFAULT_TTL_S,
        priority: int = 0,
    ) -> None:
        if value is not None and value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self.name = name
        self.client = client or shared_client(url, token, ca_file)
        self._value = value
        self._owner = owner
        self._ttl = ttl
        self._priority = priority
        self._entered = Entered()
        self._reset()
        on_fork(self, _Named._reset)
        self._held: deque[Permit] = deque()

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def _acquire(self, wait: Optional[float], cancel: Cancel) -> Permit:
        request = Request(
            self.client,
            {self.name: 1},
            owner=self._owner,
            ttl=self._ttl,
            wait=wait,
            priority=self._priority,
        )
        try:
            return request._acquire(cancel)
        except errors.RefusedError as refused:
            if refused.code != "unknown_semaphore" or self._value is None:
                raise
        self.client.define_if_missing(self.name, self._value)
        return request._acquire(cancel)

    def _acquired(self, wait: Optional[float], cancel: Cancel) -> bool:
        try:
            permit = self._acquire(wait, cancel)
        except errors.ExhaustedError:
            return False
        self._held.append(permit)
        return True

    def _release(self, n: int) -> None:
        if n < 1:
            raise ValueError("n must be one or more")
        with self._lock:
            # In a child of `fork`, those that it has acquired itself come before those of its parent.
            held = sorted(self._held, key=lambda permit: not permit.is_of_this_process())
            permits = held[:n]
            count = len(permits)
            if count < n and self._is_bounded():
                raise ValueError("semaphore released too many times")
            for permit in permits:
                self._held.remove(permit)
        lost: Optional[errors.LostError] = None
        for permit in permits:
            try:
                permit.leave()
            except errors.LostError as error:
                lost = error
        if count < n:
            self._add(n - count)
        if lost is not None:
            raise lost

    def _is_bounded(self) -> bool:
        return True

    def _add(self, more: int) -> None:
        """Raises the capacity, as a release without an acquire does in ``threading``."""
        if self._value is not None:
            self.client.define_if_missing(self.name, self._value)
        # If two raise it from 1 to 2 at once, both are answered that it is 2. The history says whose
        # change that was.
        note = f"release {uuid.uuid4()}"
        while not any(change.note == note for change in self.client.history(self.name)):
            capacity = self.client.status(self.name).capacity
            try:
                self.client.define(self.name, capacity + more, expected_capacity=capacity, note=note)
            except errors.RefusedError as refused:
                if refused.code != "capacity_changed":
                    raise
        if self._value is not None:
            with self._lock:
                self._value += more

    def _free(self) -> str:
        return "?" if self._value is None else str(self._value - len(self._held))


class Semaphore(_Named):
    """Stands in for ``threading.Semaphore``, across machines.

    ``value`` is the capacity with which the semaphore is created if there is none of this name; one that
    exists keeps its capacity. Without ``value`` it must exist, or match a template. ``url``, ``token``
    and ``ca_file`` are those of ``Client``; ``owner``, ``ttl`` and ``priority`` those of ``Client.request``.

    ``with`` raises rather than run its block without the permit, and its target is the ``Permit``. As in
    ``threading``, a release without an acquire raises the capacity, for everybody: prefer
    ``BoundedSemaphore``, which raises ``ValueError`` then.

    Keep a reference to the semaphore while you hold permits of ``acquire``: they are released when it is
    garbage-collected. For the ``Permit`` without a block, use ``Client.request``.
    """

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """Takes a permit. Returns ``False`` if there is none, or none within ``timeout`` seconds.

        Without a ``timeout`` it waits as long as it takes. Unlike ``threading``'s it can fail: it raises
        ``UnavailableError`` if no server answers within the client's ``timeout``, beyond the wait.
        """
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        wait = max(timeout, 0.0) if timeout is not None else None
        return self._acquired(wait if blocking else 0.0, Cancel())

    def release(self, n: int = 1) -> None:
        """Gives back ``n`` permits that were acquired through this object, the oldest first.

        Raises ``LostError`` if one of them was lost.
        """
        self._release(n)

    def __enter__(self) -> Permit:
        permit = self._acquire(None, Cancel())
        self._entered.push(permit)
        return permit

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """As a decorator: each call of ``function`` runs under a permit.

        Raises ``TypeError`` for coroutine functions, which an ``AsyncSemaphore`` takes, and for generator
        functions, whose body runs only after the call: use ``with`` in the body. A call whose function
        returns a coroutine or a generator raises it too.
        """
        refuse_if_later(function)

        @functools.wraps(function)
        def under_permit(*args: Any, **kwargs: Any) -> Any:
            with self:
                return done(function(*args, **kwargs))

        return under_permit  # type: ignore[return-value]

    def _is_bounded(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<lockhouse.Semaphore at {id(self):#x}: value={self._free()}>"


class BoundedSemaphore(Semaphore):
    """Stands in for ``threading.BoundedSemaphore``: it can't be released more often than acquired."""

    def _is_bounded(self) -> bool:
        return True

    def __repr__(self) -> str:
        value = "?" if self._value is None else self._value
        return f"<lockhouse.BoundedSemaphore at {id(self):#x}: value={self._free()}/{value}>"


class AsyncSemaphore(_Named):
    """Stands in for ``asyncio.BoundedSemaphore``, across machines.

    Takes what ``Semaphore`` takes. A task that is cancelled while it waits leaves the line. Calls are made,
    and holds are renewed, on threads, so a busy event loop loses no hold.
    """

    async def acquire(self) -> bool:
        """Waits for a permit, as long as it takes, and takes it. Always returns ``True``, as in asyncio."""
        cancel = Cancel()
        permit = await in_background(lambda: self._acquire(None, cancel), cancel.cancel, Permit.release)
        self._held.append(permit)
        return True

    async def try_acquire(self, timeout: float = 0.0) -> bool:
        """Takes a permit. Returns ``False`` if there is none within ``timeout`` seconds."""
        cancel = Cancel()
        try:
            permit = await in_background(
                lambda: self._acquire(timeout, cancel), cancel.cancel, Permit.release
            )
        except errors.ExhaustedError:
            return False
        self._held.append(permit)
        return True

    def release(self) -> asyncio.Future[None]:
        """Gives back the oldest permit of ``acquire``. The release begins at once.

        Await the result to know that it is done. That raises ``LostError`` if the hold was lost.
        """
        if not self._held:
            raise ValueError("semaphore released too many times")
        return asyncio.ensure_future(in_background(lambda: self._release(1)))

    async def __aenter__(self) -> Permit:
        cancel = Cancel()
        permit = await in_background(lambda: self._acquire(None, cancel), cancel.cancel, Permit.release)
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

    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        """As a decorator: each call of the coroutine function runs under a permit.

        Raises ``TypeError`` for any other function. In the body of an async generator, use ``async with``. A
        call whose function returns a coroutine or a generator raises it too.
        """
        if not _is(inspect.iscoroutinefunction, function):
            raise TypeError("an AsyncSemaphore decorates only coroutine functions")

        @functools.wraps(function)
        async def under_permit(*args: Any, **kwargs: Any) -> Any:
            async with self:
                return done(await function(*args, **kwargs))

        return under_permit

    def __repr__(self) -> str:
        return f"<lockhouse.AsyncSemaphore at {id(self):#x}: value={self._free()}>"
