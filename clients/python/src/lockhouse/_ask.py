"""One call to the server: asked, and asked again where that can help.

Every call of the API is safe to repeat, so a connection that fails, a lost answer and a server that
says "try again" are all met in the same way: ask again, with growing and jittered pauses, until the
deadline. Only the deadline bounds the tries.
"""

from __future__ import annotations

import random
import time
from typing import Any, Optional

from . import errors
from ._http import Answer, BrokenError, Call, Cancel, Transport

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class FailedTryError(Exception):
    """A try that failed: with which error, whether to try again, and when at the soonest."""

    def __init__(
        self,
        error: errors.LockhouseError,
        may_retry: bool = False,
        maybe_applied: bool = False,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.may_retry = may_retry
        self.maybe_applied = maybe_applied
        self.retry_after_s = retry_after_s


class Asked:
    """An answer that says yes. ``before``: an earlier try may have been done."""

    def __init__(self, status: int, value: Any, before: bool) -> None:
        self.status = status
        self.value = value
        self.before = before


def ask(transport: Transport, call: Call, deadline: float, cancel: Optional[Cancel] = None) -> Asked:
    """Asks until there is an answer or ``deadline`` (monotonic) passes."""
    retry = 0
    before = False
    while True:
        try:
            status, value = once(transport, call, deadline, cancel)
            return Asked(status, value, before)
        except FailedTryError as failure:
            pause = pause_s(retry, failure.retry_after_s)
            before = before or failure.maybe_applied
            if not failure.may_retry or time.monotonic() + pause >= deadline:
                failure.error.maybe_applied = before
                raise failure.error from failure.__cause__
            retry += 1
        (cancel or _NEVER).pause(pause)


def once(
    transport: Transport, call: Call, deadline: float, cancel: Optional[Cancel] = None
) -> tuple[int, Any]:
    """One try; its status and JSON. Raises ``FailedTryError``."""
    try:
        answer = transport.exchange(call, deadline, cancel)
    except BrokenError as broken:
        error = errors.UnavailableError("store_unavailable", str(broken))
        raise FailedTryError(error, broken.may_retry, broken.was_sent) from broken.__cause__
    try:
        value = answer.json()
    except ValueError:
        value = None
        if answer.status < 300:
            raise FailedTryError(_foreign(transport, answer)) from None
    if answer.status < 300:
        return answer.status, value
    raise _failure(transport, answer, value)


def pause_s(retry: int, least: float) -> float:
    """One to two times 50 ms, then twice that, up to two seconds; and no less than the server says."""
    pause = min(FIRST_PAUSE_S * float(2 ** min(retry, 10)), LONGEST_PAUSE_S)
    return max(pause * (1 + random.random()), least)


def _failure(transport: Transport, answer: Answer, value: Any) -> FailedTryError:
    status = answer.status
    code = value.get("code") if isinstance(value, dict) else None
    is_of_the_api = status != 405 and not (status == 404 and code == "invalid_request")
    if status in (429, 503):
        after = answer.headers.get("retry-after", "")
        after_s = float(after) if after.isdigit() else 0.0
        error = errors.UnavailableError("store_unavailable", f"{transport.shown} answered {status}")
        return FailedTryError(errors.of_problem(value) if code else error, True, bool(code), after_s)
    if code and is_of_the_api:
        return FailedTryError(errors.of_problem(value))
    # Not the words of a server: those of a proxy before it, or of something else.
    if status in (502, 504):
        error = errors.UnavailableError("store_unavailable", f"{transport.shown} answered {status}")
        return FailedTryError(error, True, True)
    if status in (401, 403):
        code = "unauthenticated" if status == 401 else "forbidden"
        return FailedTryError(errors.DeniedError(code, f"{transport.shown} answered {status}"))
    return FailedTryError(_foreign(transport, answer))


def _foreign(transport: Transport, answer: Answer) -> errors.LockhouseError:
    to = answer.headers.get("location")
    what = f"{transport.shown} answered {answer.status}" + (f" to {to}" if to else "")
    return errors.RefusedError("invalid_request", f"{what}; is it the URL of a lockhouse server?")


_NEVER = Cancel()
