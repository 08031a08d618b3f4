"""A distributed counting semaphore: N workers, on any number of machines, and no more than N.

>>> import lockhouse
>>> with lockhouse.Semaphore("backup-slots", 10) as permit:
...     upload(permit.fence())
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
