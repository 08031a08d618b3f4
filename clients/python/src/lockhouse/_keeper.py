"""Background work of this process: one thread that keeps time, and workers that make the calls.

All of them are daemon threads, so a busy caller or event loop delays no renewal, and none of them
keeps the process from ending. The threads start when they are first needed. A call that hangs holds
up its own worker only.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from typing import Callable, Optional

from . import _fork

logger = logging.getLogger("lockhouse")

IDLE_WORKER_S = 5.0


class Alarm:
    """Something to do at a time, unless cancelled."""

    def __init__(self, at: float, what: Callable[[], object]) -> None:
        self.at = at
        self.what: Optional[Callable[[], object]] = what

    def cancel(self) -> None:
        self.what = None


class Keeper:
    def __init__(self) -> None:
        self._reset()
        _fork.on_fork(self, Keeper._reset)

    def _reset(self) -> None:
        # In the child of a fork no thread of the parent's is left, and nothing that it did is the child's.
        self._changed = threading.Condition(threading.Lock())
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._has_thread = False
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._idle_workers = 0
        self._workers = threading.Lock()

    def at(self, when: float, what: Callable[[], object]) -> Alarm:
        """Calls ``what``, which must not block, at ``when`` (monotonic)."""
        alarm = Alarm(when, what)
        with self._changed:
            heapq.heappush(self._alarms, (when, next(self._order), alarm))
            if not self._has_thread:
                threading.Thread(target=self._keep_time, name="lockhouse-keeper", daemon=True).start()
                self._has_thread = True
            elif self._alarms[0][2] is alarm:
                self._changed.notify()
        return alarm

    def run(self, job: Callable[[], object]) -> None:
        """Runs ``job``, which may block, on its own worker."""
        with self._workers:
            if self._idle_workers:
                self._idle_workers -= 1
                self._jobs.put(job)
                return
        threading.Thread(target=self._work, args=(job,), name="lockhouse-worker", daemon=True).start()

    def _keep_time(self) -> None:
        while True:
            with self._changed:
                while True:
                    now = time.monotonic()
                    while self._alarms and self._alarms[0][2].what is None:
                        heapq.heappop(self._alarms)
                    if self._alarms and self._alarms[0][0] <= now:
                        alarm = heapq.heappop(self._alarms)[2]
                        break
                    self._changed.wait(self._alarms[0][0] - now if self._alarms else None)
            what = alarm.what
            if what is not None:
                _guarded(what)

    def _work(self, job: Optional[Callable[[], object]]) -> None:
        while job is not None:
            _guarded(job)
            with self._workers:
                self._idle_workers += 1
            job = self._next_job()

    def _next_job(self) -> Optional[Callable[[], object]]:
        try:
            return self._jobs.get(timeout=IDLE_WORKER_S)
        except queue.Empty:
            pass
        with self._workers:
            # A job may have been put after the wait was over: it counts on this worker.
            try:
                return self._jobs.get_nowait()
            except queue.Empty:
                self._idle_workers -= 1
                return None


def _guarded(what: Callable[[], object]) -> None:
    try:
        what()
    except Exception:
        logger.exception("a background task failed")


KEEPER = Keeper()
