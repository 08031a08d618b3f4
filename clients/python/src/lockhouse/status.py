"""Semaphores, requests and waiters, as the server lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional


@dataclass(frozen=True)
class SemaphoreStatus:
    """The state of a semaphore when the server answered."""

    name: str
    capacity: int
    in_use: int
    """How many permits are held."""
    available: int
    """How many permits are free."""
    waiting: int
    """How many calls wait."""
    fence: int
    """The highest fence so far."""
    slots: bool
    """Whether its permits have slots."""
    template: Optional[str]
    """The pattern of the template that created it."""
    created_at: datetime
    updated_at: datetime

    @staticmethod
    def of(wire: Mapping[str, Any]) -> SemaphoreStatus:
        return SemaphoreStatus(
            name=wire["name"],
            capacity=wire["capacity"],
            in_use=wire["in_use"],
            available=wire["available"],
            waiting=wire["waiting"],
            fence=wire["fence"],
            slots=bool(wire.get("slots")),
            template=wire.get("template"),
            created_at=time_of(wire["created_at"]),
            updated_at=time_of(wire["updated_at"]),
        )


@dataclass(frozen=True)
class HeldPermit:
    """The permits of a request on one semaphore."""

    semaphore: str
    count: int
    fence: int
    slots: tuple[int, ...]


@dataclass(frozen=True)
class RequestStatus:
    """A request that was granted, held or ended."""

    external_id: str
    state: str
    """``acquired`` while it is held, then ``released``."""
    end_reason: Optional[str]
    """Why it ended: ``released``, ``expired``, ``owner_dead``, ``stale`` or ``forced``."""
    ended_by: Optional[str]
    """The caller that released it or ended it by force."""
    owner: Optional[str]
    permits: tuple[HeldPermit, ...]
    ttl: Optional[float]
    """In seconds."""
    expires_at: Optional[datetime]
    created_at: datetime
    released_at: Optional[datetime]

    @staticmethod
    def of(wire: Mapping[str, Any]) -> RequestStatus:
        permits = (
            HeldPermit(it["semaphore"], it["count"], it["fence"], tuple(it.get("slots") or ()))
            for it in wire["permits"]
        )
        return RequestStatus(
            external_id=wire["external_id"],
            state=wire["state"],
            end_reason=wire["end_reason"],
            ended_by=wire.get("ended_by"),
            owner=wire["owner"],
            permits=tuple(permits),
            ttl=None if wire["ttl_ms"] is None else wire["ttl_ms"] / 1000,
            expires_at=_maybe(wire["expires_at"]),
            created_at=time_of(wire["created_at"]),
            released_at=_maybe(wire["released_at"]),
        )


@dataclass(frozen=True)
class CapacityChange:
    """An entry of a semaphore's history."""

    old_capacity: int
    new_capacity: int
    changed_by: Optional[str]
    note: Optional[str]
    changed_at: datetime

    @staticmethod
    def of(wire: Mapping[str, Any]) -> CapacityChange:
        return CapacityChange(
            wire["old_capacity"],
            wire["new_capacity"],
            wire["changed_by"],
            wire["note"],
            time_of(wire["changed_at"]),
        )


@dataclass(frozen=True)
class Waiter:
    """A call that waits for a semaphore."""

    external_id: str
    owner: Optional[str]
    count: int
    priority: int
    since: datetime

    @staticmethod
    def of(wire: Mapping[str, Any]) -> Waiter:
        return Waiter(
            wire["external_id"],
            wire["owner"],
            wire["count"],
            wire["priority"],
            time_of(wire["since"]),
        )


@dataclass(frozen=True)
class Template:
    """A rule that creates semaphores on first use."""

    pattern: str
    capacity: int
    idle: Optional[float]
    """In seconds."""

    @staticmethod
    def of(wire: Mapping[str, Any]) -> Template:
        idle_ms = wire.get("idle_ms")
        return Template(wire["pattern"], wire["capacity"], None if idle_ms is None else idle_ms / 1000)


def time_of(text: str) -> datetime:
    """An RFC 3339 time; Python before 3.11 reads no ``Z`` and only six digits of a second."""
    text = re.sub(r"\.(\d{1,6})\d*", lambda digits: "." + digits[1].ljust(6, "0"), text)
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _maybe(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else time_of(text)
