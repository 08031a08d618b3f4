"""Permits that this process holds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Optional, TypeVar
from weakref import finalize

from . import errors
from ._background_release import BACKGROUND_RELEASES, DROPPED, Release, release_dropped
from ._hold import Hold, Lost
from ._tasks import in_background
from .status import RequestStatus

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")


class Entered:
    """Which permits blocks hold, as many threads and tasks may share one semaphore."""

    def __init__(self) -> None:
        self._permits: list[tuple[object, Permit]] = []

    def push(self, permit: Permit) -> None:
        self._permits.append((_who(), permit))

    def pop(self) -> Permit:
        """The one that this thread or task entered last; another's if a block moved between threads."""
        who = _who()
        while True:
            mine = [entry for entry in self._permits if entry[0] == who] or self._permits
            entry = mine[-1]
            # Unless another thread has just taken it.
            with contextlib.suppress(ValueError):
                self._permits.remove(entry)
                return entry[1]


def _who() -> object:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task or threading.get_ident()


class Permit:
    """The permits of one request, on one or more semaphores: renewed in the background until it is released.

    A context manager: leaving the block releases, and raises ``LostError`` if the hold was lost meanwhile. If
    the block raised an error itself, that error goes on instead. A permit that is garbage-collected, or still
    held when the process exits, is released. In a child of ``fork`` it counts as lost and does nothing: the
    parent holds it.
    """

    def __init__(
        self,
        request: RequestStatus,
        lost: Lost,
        hold: Optional[Hold],
        release: Release,
        session: Optional[Session] = None,
    ) -> None:
        self.request = request
        """The request as it was granted."""
        self.lost = lost
        """Whether the hold is lost: ``if permit.lost``, ``permit.lost.wait(1)``, ``permit.lost.then(call)``.

        It is set when nine tenths of the time to live have passed since the last successful renewal was sent.
        The server can grant the permits to another only after the whole time to live. A released permit is
        never lost.
        """
        self._hold = hold
        self._release = release
        # A session is kept as long as a permit of it is.
        self._session = session
        self._pid = os.getpid()
        self._is_open = True
        # It must not refer to the permit, or that would live for ever.
        self._dropped = finalize(self, DROPPED.put, partial(release_dropped, hold, release), self._pid)
        self._dropped.atexit = False
        DROPPED.expect()
        BACKGROUND_RELEASES.held.add(self)

    @property
    def external_id(self) -> str:
        """The id of the request: the caller's, or the one that was made for it."""
        return self.request.external_id

    @property
    def fences(self) -> Mapping[str, int]:
        """The fence on each semaphore, by its name."""
        return {permit.semaphore: permit.fence for permit in self.request.permits}

    def fence(self, semaphore: Optional[str] = None) -> int:
        """The fence on ``semaphore``: a number that rises with every grant on it.

        ``semaphore`` may be left out if the request names only one.
        """
        return self._of(semaphore, self.fences)

    def slots(self, semaphore: Optional[str] = None) -> tuple[int, ...]:
        """The slots on ``semaphore``: indexes that no other live permit has. Empty if it is not slotted."""
        return self._of(semaphore, {permit.semaphore: permit.slots for permit in self.request.permits})

    def check(self) -> None:
        """Raises ``LostError`` if the hold is lost: call it before each step that can't be undone."""
        reason = self.lost.reason
        if reason is not None:
            raise self._lost_error(reason)

    def release(self) -> bool:
        """Gives the permits back. Returns whether they were held until now; ``leave`` raises if not.

        A second release does nothing and returns ``False``. Raises ``UnavailableError`` if the server does
        not answer. The release is then tried again in the background, and the time to live covers the rest.
        """
        if not self._close():
            return False
        try:
            return self._release.now()
        except errors.UnavailableError:
            self._release.in_background(self.lost.until)
            raise
        except errors.RefusedError as refused:
            if refused.code != "unknown_request":
                raise
            return False

    async def arelease(self) -> bool:
        """``release`` for asyncio: the event loop goes on meanwhile."""
        return await in_background(self.release)

    def forget(self) -> str:
        """Stops the renewals and does not release: the time to live ends the hold. Returns its id.

        So another process can go on with the hold by that id.
        """
        self._close()
        return self.external_id

    def leave(self) -> None:
        """Releases as the end of a block does: raises ``LostError`` if the hold was lost before."""
        if not self._is_open or not self.is_of_this_process():
            return
        reason = self.lost.reason
        try:
            was_held = self.release()
        except errors.UnavailableError:
            # The work is done under the permit, and the release goes on in the background.
            was_held = True
        except errors.RefusedError:
            if reason is None:
                raise
            was_held = False
        if reason is not None or not was_held:
            raise self._lost_error(reason or "released")

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.leave()
        except errors.LostError:
            # An error of the block says more than that the hold is lost.
            if error is None:
                raise

    def __repr__(self) -> str:
        state = "held" if self._is_open else "released"
        return f"<lockhouse.Permit {self.external_id}: {self.lost.reason or state}>"

    def is_of_this_process(self) -> bool:
        """Whether this process acquired it, and did not inherit it by ``fork``."""
        return self._pid == os.getpid()

    def _close(self) -> bool:
        """Whether it was open, and is this process's to release."""
        if not self._is_open or not self.is_of_this_process():
            return False
        self._is_open = False
        self._dropped.detach()
        BACKGROUND_RELEASES.held.discard(self)
        if self._hold is not None:
            self._hold.release()
        self.lost._end()
        return True

    def _release_at_exit(self, deadline: float) -> None:
        if self._close() and time.monotonic() < deadline:
            # If that fails, the time to live ends it.
            with contextlib.suppress(errors.LockhouseError):
                self._release.now(deadline)

    def _of(self, semaphore: Optional[str], values: Mapping[str, T]) -> T:
        if semaphore is None and len(values) == 1:
            return next(iter(values.values()))
        if semaphore is None or semaphore not in values:
            raise KeyError(f"name one of the semaphores of this request: {', '.join(values)}")
        return values[semaphore]

    def _lost_error(self, reason: str) -> errors.LostError:
        return errors.LostError(reason, f"the hold of request {self.external_id} was lost: {reason}")
