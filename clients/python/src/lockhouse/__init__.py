"""A distributed counting semaphore: N workers, on any number of machines, and no more than N.

>>> import lockhouse
>>> with lockhouse.Semaphore("backup-slots", 10) as permit:
...     upload(permit.fence())

``Semaphore``, ``BoundedSemaphore`` and ``AsyncSemaphore`` stand in for those of ``threading`` and
``asyncio``. A ``Client`` has everything else: several semaphores in one request, ids, sessions, listings.

All durations are in seconds. Every error is a ``LockhouseError``. Threads and tasks may share all objects of
this package. The logger ``lockhouse`` says what goes wrong in the background.
"""

from ._hold import Lost
from ._version import VERSION as __version__
from .client import Client
from .errors import (
    DeniedError,
    EndedError,
    ExhaustedError,
    LockhouseError,
    LostError,
    RefusedError,
    UnavailableError,
)
from .permit import Permit
from .request import Request
from .semaphore import AsyncSemaphore, BoundedSemaphore, Semaphore
from .session import Session
from .status import CapacityChange, HeldPermit, RequestStatus, SemaphoreStatus, Template, Waiter

__all__ = [
    "AsyncSemaphore",
    "BoundedSemaphore",
    "CapacityChange",
    "Client",
    "DeniedError",
    "EndedError",
    "ExhaustedError",
    "HeldPermit",
    "LockhouseError",
    "Lost",
    "LostError",
    "Permit",
    "RefusedError",
    "Request",
    "RequestStatus",
    "Semaphore",
    "SemaphoreStatus",
    "Session",
    "Template",
    "UnavailableError",
    "Waiter",
    "__version__",
]
