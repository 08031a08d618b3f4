"""Releases in the background: of dropped permits, and of requests granted after their caller gave up.

The release of a request whose id this package made is tried again every 2 s until its time to live is over,
as nobody else knows the id. A request whose id the caller chose stays, for a retry with that id.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Optional, Protocol
from weakref import WeakSet

from . import errors
from ._fork import on_fork
from ._keeper import KEEPER, logger

if TYPE_CHECKING:
    from ._hold import Hold
    from .client import Client

AGAIN_AFTER_S = 2.0
COMES_WITHIN_S = 1.0
EXIT_S = 5.0


class Held(Protocol):
    """A permit or a session."""

    def _release_at_exit(self, deadline: float) -> None: ...


class _BackgroundReleases:
    """The releases under way."""

    def __init__(self) -> None:
        self._reset()
        on_fork(self, _BackgroundReleases._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self.held: WeakSet[Held] = WeakSet()

    def add(self, change: int) -> None:
        with self._changed:
            self._count += change
            self._changed.notify_all()

    def settle(self, deadline: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, max(deadline - time.monotonic(), 0.0))


BACKGROUND_RELEASES = _BackgroundReleases()


@dataclass(frozen=True)
class Release:
    """How to release one request. ``is_ours``: this package made its id."""

    client: Client
    external_id: str
    by: str
    is_ours: bool

    def now(self, deadline: Optional[float] = None) -> bool:
        return self.client.release(self.external_id, by=self.by, deadline=deadline)

    def in_background(self, ends_at: Optional[float], may_come_yet: bool = False) -> None:
        """On a worker. ``may_come_yet``: the ask may reach the server only after this."""

        def job() -> None:
            try:
                self._until_released(ends_at, may_come_yet)
            finally:
                BACKGROUND_RELEASES.add(-1)

        BACKGROUND_RELEASES.add(1)
        try:
            KEEPER.run(job)
        except RuntimeError:  # The interpreter ends, and starts no more threads: the time to live ends it.
            BACKGROUND_RELEASES.add(-1)

    def _until_released(self, ends_at: Optional[float], may_come_yet: bool) -> None:
        while True:
            try:
                self.now()
                return
            except errors.RefusedError:
                if not may_come_yet:
                    return
                may_come_yet = False
                time.sleep(COMES_WITHIN_S)
            except errors.LockhouseError as error:
                logger.warning("request %s could not be released: %s", self.external_id, error)
                if not self.is_ours:
                    return
                time.sleep(AGAIN_AFTER_S)
                if ends_at is not None and time.monotonic() >= ends_at:
                    return


class _Dropped:
    """Permits and sessions that nothing refers to any more.

    The garbage collector may find them while its thread has a lock of this package. So it only puts their
    release into a queue, which takes no lock. A separate thread does it.
    """

    def __init__(self) -> None:
        self._reset()
        on_fork(self, _Dropped._reset)

    def _reset(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._has_thread = False

    def expect(self) -> None:
        """There is a permit or a session, which may be dropped."""
        with self._lock:
            if not self._has_thread:
                threading.Thread(target=self._work, name="lockhouse-dropped", daemon=True).start()
                self._has_thread = True

    def put(self, what: Callable[[], object], pid: int) -> None:
        if pid == os.getpid():
            self._queue.put(what)

    def settle(self, deadline: float) -> None:
        """Waits until all that were dropped before are on their way."""
        if self._has_thread:
            done = threading.Event()
            self._queue.put(done.set)
            done.wait(max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        while True:
            self._queue.get()()


DROPPED = _Dropped()


def release_dropped(hold: Optional[Hold], release: Release) -> None:
    """Releases the permits of a dropped ``Permit`` in the background."""
    if hold is not None:
        hold.release()
    release.in_background(hold.lost.until if hold else None)


def _at_exit() -> None:
    deadline = time.monotonic() + EXIT_S
    DROPPED.settle(deadline)
    for held in list(BACKGROUND_RELEASES.held):
        held._release_at_exit(deadline)
    BACKGROUND_RELEASES.settle(deadline)


atexit.register(_at_exit)
