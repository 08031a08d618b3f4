"""Keeping a hold alive, and knowing when it is lost.

A hold is renewed about every third of its time to live. It counts as lost a tenth of the time to
live before the server could end it, by this process's monotonic clock, from when the last successful
call was sent. Every look compares with that clock, so a process that was stopped finds the hold lost
at its first check. A hold that was lost once stays lost, and one that was released before is never lost.

A renewal that is not answered soon gets another beside it, as a dead connection may hang.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from functools import partial
from typing import Callable, Optional
from weakref import WeakSet

from ._keeper import KEEPER, Alarm, logger

Renewal = Callable[[float], Optional[str]]
"""Renews until ``deadline``; says why the hold is lost, if the server said so. Raises if unsure."""

RENEWAL_S = 10.0


def give_up_at(sent_at: float, ttl: float) -> float:
    return sent_at + ttl - ttl / 10


class Lost:
    """Whether a hold is lost. Like a ``threading.Event``, and true once it is.

    >>> if permit.lost: ...
    >>> permit.lost.wait(timeout=1.0)

    Each check compares with the monotonic clock. So a process that was stopped for long finds the hold lost
    at its first check. A hold that was lost once stays lost. One that was released before is
    never lost: ``wait`` returns ``False``, and callbacks are not called.
    """

    def __init__(self, until: Optional[float] = None, parent: Optional[Lost] = None) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: dict[object, Callable[[str], object]] = {}
        self._children: WeakSet[Lost] = WeakSet()
        self._reason: Optional[str] = None
        self._is_over = False
        self._until = until
        self._parent = parent
        if parent is not None:
            parent._adopt(self)

    @property
    def reason(self) -> Optional[str]:
        """Why it is lost, by the clock at this call; ``None`` if it is not. See ``LostError``."""
        if self._is_over:
            return self._reason
        if os.getpid() != self._pid:
            return "forked"
        if self._reason is None and self._until is not None and time.monotonic() >= self._until:
            self.set("not_renewed")
        if self._reason is None and self._parent is not None and self._parent.reason is not None:
            self.set(self._parent.reason)
        return self._reason

    @property
    def until(self) -> Optional[float]:
        """The ``time.monotonic()`` at which it counts as lost, unless renewed; ``None`` if never."""
        return self._until if self._parent is None else self._parent.until

    def is_set(self) -> bool:
        """Whether it is lost, by the clock at this call."""
        return self.reason is not None

    __bool__ = is_set

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it is lost or released, for at most ``timeout`` seconds. Returns whether it is lost."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.reason is None:
            if self._is_over:
                return False
            ends = [it for it in (end, self.until) if it is not None]
            left = min(ends) - time.monotonic() if ends else None
            if end is not None and time.monotonic() >= end:
                return False
            self._event.wait(None if left is None else max(left, 0.0))
        return True

    def then(self, callback: Callable[[str], object]) -> Callable[[], object]:
        """Calls ``callback(reason)`` on a background thread when it is lost, at once if it is.

        Returns a function that removes the callback.
        """
        key = object()
        reason = self.reason
        if reason is None:
            with self._lock:
                reason = self._reason
                if reason is None and self._is_over:
                    return lambda: None
                if reason is None:
                    self._callbacks[key] = callback
                    return lambda: self._callbacks.pop(key, None)
        KEEPER.run(partial(callback, reason))
        return lambda: None

    def set(self, reason: str) -> None:
        """Counts the hold as lost from now on, for that reason. This package calls it."""
        with self._lock:
            if self._reason is not None or self._is_over:
                return
            self._reason = reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
            children = list(self._children)
        self._event.set()
        for child in children:
            child.set(reason)
        for callback in callbacks:
            KEEPER.run(partial(callback, reason))

    def _end(self) -> None:
        """It is not lost from now on, unless it was lost before."""
        _ = self.reason
        with self._lock:
            self._is_over = True
            self._callbacks = {}
        self._event.set()

    def _adopt(self, child: Lost) -> None:
        with self._lock:
            self._children.add(child)

    def _extend(self, until: float) -> None:
        if self.reason is None:
            self._until = max(until, self._until or until)

    def __repr__(self) -> str:
        return f"<Lost: {self.reason or 'no'}>"


class Hold:
    """Renews until it is stopped or lost."""

    def __init__(self, what: str, renew: Renewal, ttl: float, sent_at: float) -> None:
        self.what = what
        self.lost = Lost(give_up_at(sent_at, ttl))
        self._renew = renew
        self._ttl = ttl
        self._lock = threading.Lock()
        self._next = sent_at + self._soon()
        self._alarm: Optional[Alarm] = None
        self._stopped = False
        self._plan()

    def stop(self) -> None:
        """Renews it no more, so it is lost when its time is over."""
        with self._lock:
            self._stopped = True
            if self._alarm:
                self._alarm.cancel()

    def release(self) -> None:
        """Renews it no more, and it is lost no more."""
        self.stop()
        self.lost._end()

    def end(self, reason: str) -> None:
        self.stop()
        self.lost.set(reason)

    def _soon(self) -> float:
        # Up to a fifth sooner, so that holds that began together do not go on in step.
        return self._ttl / 3 * (1 - random.random() / 5)

    def _plan(self) -> None:
        with self._lock:
            if self._stopped or self.lost:
                return
            if self._alarm:
                self._alarm.cancel()
            until = self.lost.until
            self._alarm = KEEPER.at(min(self._next, until or self._next), self._tick)

    def _tick(self) -> None:
        if self._stopped:
            return
        if self.lost:
            _log(logging.ERROR, "%s was lost: it could not be renewed in time", self.what)
            return
        if time.monotonic() >= self._next:
            # Unless it is answered before, another goes beside it then.
            self._next = time.monotonic() + self._ttl / 4
            try:
                KEEPER.run(self._renew_once)
            except RuntimeError as error:  # This process can't start a thread now.
                _log(logging.WARNING, "%s could not be renewed, trying again: %s", self.what, error)
        self._plan()

    def _renew_once(self) -> None:
        sent_at = time.monotonic()
        try:
            reason = self._renew(sent_at + RENEWAL_S)
        except Exception as error:
            self._next = min(self._next, time.monotonic() + min(self._ttl / 12, 1.0))
            self._plan()
            if not self._stopped:
                logger.warning("%s could not be renewed, trying again: %s", self.what, error)
            return
        if self._stopped:
            return
        if reason is not None:
            self.end(reason)
            logger.error("%s was lost: %s", self.what, reason)
            return
        self.lost._extend(give_up_at(sent_at, self._ttl))
        self._next = sent_at + self._soon()
        self._plan()


def _log(level: int, text: str, *of: object) -> None:
    """For the thread that keeps time: a handler may block."""
    with contextlib.suppress(RuntimeError):  # This process can't start a thread now.
        KEEPER.run(partial(logger.log, level, text, *of))
