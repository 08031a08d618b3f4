"""A wait for room, in calls of at most 20 s.

Proxies end calls on which nothing moves, so a long wait takes several calls under one id. Each begins
a second before the last one ends. So the server has one of them in its line all the time, and nobody
behind gets by in between. Both are answered with the same grant.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _ask, errors
from ._http import Call, Cancel, CancelledCallError, Transport
from ._keeper import KEEPER

LONGEST_S = 20.0
OVERLAP_S = 1.0
FOREVER = float("inf")

Outcome = Union[_ask.Asked, BaseException]


class Wait:
    """The calls of one ask."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        body: Mapping[str, Any],
        timeout: float,
        cancel: Cancel,
    ) -> None:
        self._transport = transport
        self._path = path
        self._body = body
        self._timeout = timeout
        self._cancel = cancel
        # A grant to a later call ends the first.
        self._first = Cancel()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._later: list[Cancel] = []
        self._open = 0
        self._begun_at = 0.0
        self._is_over = False
        self.is_granted = False

    def granted(self, until: float) -> _ask.Asked:
        """The grant. ``until`` is monotonic, or ``FOREVER``."""
        now = time.monotonic()
        if until <= now + LONGEST_S:
            return self._call(until, self._cancel)
        alarm = KEEPER.at(now + LONGEST_S - OVERLAP_S, lambda: self._begin(until))
        self._cancel.then(self._first.cancel)
        try:
            return self._call(now + LONGEST_S, self._first)
        except (errors.ExhaustedError, errors.UnavailableError, CancelledCallError) as error:
            alarm.cancel()
            if self._cancel.is_set() or not (self._later or isinstance(error, errors.ExhaustedError)):
                raise
            if not self._later:
                self._begin(until)
            return self._go_on(until)
        finally:
            alarm.cancel()
            self._hang_up()

    def _go_on(self, until: float) -> _ask.Asked:
        """Waits for the calls on workers, and begins the next ones."""
        self._cancel.then(lambda: self._outcomes.put(CancelledCallError()))
        while True:
            begun = self._begun_at
            next_at = begun + LONGEST_S - OVERLAP_S if begun + LONGEST_S < until else FOREVER
            outcome = self._next_outcome(next_at)
            if outcome is None:
                self._begin(until)
            elif isinstance(outcome, errors.ExhaustedError):
                with self._lock:
                    self._open -= 1
                    is_last = self._open == 0
                if is_last and time.monotonic() >= until:
                    raise outcome
                if is_last:
                    self._begin(until)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                return outcome

    def _next_outcome(self, at: float) -> Optional[Outcome]:
        try:
            return self._outcomes.get(timeout=None if at == FOREVER else max(at - time.monotonic(), 0.0))
        except queue.Empty:
            return None

    def _begin(self, until: float) -> None:
        """Begins a call on a worker."""
        cancel = Cancel()
        now = time.monotonic()
        call_until = min(until, now + LONGEST_S)
        with self._lock:
            if self._is_over:
                return
            self._later.append(cancel)
            self._open += 1
            self._begun_at = now

        def call() -> None:
            try:
                self._outcomes.put(self._call(call_until, cancel))
                self._first.cancel()
            except BaseException as error:
                self._outcomes.put(error)

        try:
            KEEPER.run(call)
        except RuntimeError as error:  # This process can't start a thread now.
            self._outcomes.put(error)

    def _hang_up(self) -> None:
        with self._lock:
            self._is_over = True
        for cancel in self._later:
            cancel.cancel()

    def _call(self, until: float, cancel: Cancel) -> _ask.Asked:
        def body() -> Mapping[str, Any]:
            wait = max(until - time.monotonic(), 0.0)
            return {**self._body, "wait_ms": round(wait * 1000)}

        deadline = max(until, time.monotonic()) + self._timeout
        asked = _ask.ask(self._transport, Call("PUT", self._path, body), deadline, cancel)
        self.is_granted = True
        return asked
