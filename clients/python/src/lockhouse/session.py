"""An owner's session: one heartbeat for all that it holds."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Optional
from weakref import finalize

from . import errors
from ._background_release import BACKGROUND_RELEASES, DROPPED
from ._hold import Hold, Lost
from .request import Request

if TYPE_CHECKING:
    from .client import Client


class Session:
    """Keeps all that is acquired through it by one heartbeat, however much that is.

    A context manager: leaving the block says goodbye, which releases everything that the owner holds. It
    raises ``LostError`` if the session was lost meanwhile. The permits are lost when the session is. A permit
    does not learn that its request alone was ended, by force.

    The heartbeats stop when nothing refers to the session or to a permit of it any more. The ``ttl`` then
    ends what it holds. There is no goodbye then, since the owner may have begun another session.
    """

    def __init__(self, client: Client, owner: str, ttl: float) -> None:
        self.owner = owner
        self._client = client
        self._pid = os.getpid()
        self._is_open = True
        sent_at = time.monotonic()
        client.heartbeat(owner, ttl)
        renewal = client._session_renewal(owner, ttl)
        self._hold = Hold(f"the session of {owner}", renewal, ttl, sent_at)
        # It must not refer to the session, or that would live for ever.
        self._dropped = finalize(self, DROPPED.put, self._hold.stop, self._pid)
        self._dropped.atexit = False
        DROPPED.expect()
        BACKGROUND_RELEASES.held.add(self)

    @property
    def lost(self) -> Lost:
        """Whether the session is lost, and with it all that it keeps: see ``Permit.lost``."""
        return self._hold.lost

    def request(
        self,
        permits: Mapping[str, int],
        *,
        external_id: Optional[str] = None,
        wait: Optional[float] = None,
        priority: int = 0,
    ) -> Request:
        """As ``Client.request``, for this owner. The session keeps the permits, so they have no ``ttl``."""
        return Request(
            self._client,
            permits,
            external_id=external_id,
            owner=self.owner,
            ttl=None,
            wait=wait,
            priority=priority,
            session=self,
        )

    def goodbye(self) -> int:
        """Releases all that the owner holds, and ends the session. Returns how many requests it released."""
        if not self._close():
            return 0
        return self._client.goodbye(self.owner)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if not self._is_open or self._pid != os.getpid():
            return
        reason = self.lost.reason
        if reason is None:
            self.goodbye()
            return
        # Its silence has freed what it held, and the name may be another session's now.
        self._close()
        if error is None:
            raise errors.LostError(reason, f"the session of {self.owner} was lost: {reason}")

    def __repr__(self) -> str:
        return f"<lockhouse.Session of {self.owner}: {self.lost.reason or 'held'}>"

    def _close(self) -> bool:
        if not self._is_open or self._pid != os.getpid():
            return False
        self._is_open = False
        self._dropped.detach()
        BACKGROUND_RELEASES.held.discard(self)
        self._hold.end("released")
        return True

    def _release_at_exit(self, deadline: float) -> None:
        if not self.lost and self._close() and time.monotonic() < deadline:
            # If that fails, the owner's silence frees what it holds.
            with contextlib.suppress(errors.LockhouseError):
                self._client.goodbye(self.owner)
