"""Errors: one small hierarchy, each with the server's stable ``code``.

``LockhouseError``
    ``RefusedError``      the server refused the call; the same call again is refused again
        ``ExhaustedError``    no room now, or not within the wait
        ``EndedError``        the request or the session has ended
        ``DeniedError``       no valid token, or the token lacks a grant
    ``UnavailableError``  no answer in time; the call may have been done
    ``LostError``         a hold was lost before it was released
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

__all__ = [
    "DeniedError",
    "EndedError",
    "ExhaustedError",
    "LockhouseError",
    "LostError",
    "RefusedError",
    "UnavailableError",
]


class LockhouseError(Exception):
    """The base of all errors of this package."""

    def __init__(self, code: str, detail: str, problem: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        """The stable word to branch on."""
        self.detail = detail
        """A sentence: what happened, and what to do."""
        self.problem: Mapping[str, Any] = problem or {}
        """The server's problem document, with members such as ``semaphores``."""
        self.maybe_applied = bool(self.problem.get("maybe_applied"))
        """Whether the call, or a try of it whose answer was lost, may have been done."""


class RefusedError(LockhouseError):
    """The server refused the call."""


class ExhaustedError(RefusedError):
    """There was no room, or none within the wait."""


class EndedError(RefusedError):
    """The request or the session has ended; ``end_reason`` says why, if the server did."""

    @property
    def end_reason(self) -> Optional[str]:
        """Why the request ended, if the server said so."""
        reason = self.problem.get("end_reason")
        return reason if isinstance(reason, str) else None


class DeniedError(RefusedError):
    """There is no valid token, or it lacks a grant."""


class UnavailableError(LockhouseError):
    """There was no answer in time. The call may have been done; the same call with the same id is safe."""


class LostError(LockhouseError):
    """A hold was lost: somebody else may hold the permits now. ``reason`` says why.

    ``reason`` is ``not_renewed`` (no renewal got through in time), ``unknown`` (the server does not
    know the request), ``forked`` (this process inherited the hold by ``fork``), or the server's end
    reason: ``released``, ``expired``, ``owner_dead``, ``stale``, ``forced``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__("lost", detail)
        self.reason = reason


_CLASSES: Mapping[str, type[LockhouseError]] = {
    "exhausted": ExhaustedError,
    "request_ended": EndedError,
    "session_ended": EndedError,
    "unauthenticated": DeniedError,
    "forbidden": DeniedError,
    "store_unavailable": UnavailableError,
    "overloaded": UnavailableError,
    "internal": UnavailableError,
}


def of_problem(problem: Mapping[str, Any]) -> LockhouseError:
    """The error that a problem document describes."""
    code = str(problem.get("code"))
    return _CLASSES.get(code, RefusedError)(code, str(problem.get("detail", "")), problem)
