"""CPython's own tests of semaphores, from the ``test`` package of the Python that runs this."""

from __future__ import annotations

import importlib
import itertools
import unittest
from typing import Any, ClassVar

import pytest

import lockhouse

# Debian has them in the package libpython3-testsuite.
lock_tests: Any = importlib.import_module("test.lock_tests")

_numbers = itertools.count()


def _named(kind: Any) -> Any:
    def semaphore(value: int = 1) -> Any:
        return kind(f"threading{next(_numbers)}", value, client=_Server.client)

    return staticmethod(semaphore)


class _Server:
    client: ClassVar[lockhouse.Client]


@pytest.fixture(autouse=True, scope="module")
def _server(url: str) -> None:
    _Server.client = lockhouse.Client(url)


class SemaphoreTests(lock_tests.SemaphoreTests, unittest.TestCase):  # type: ignore[misc]
    semtype = _named(lockhouse.Semaphore)


class BoundedSemaphoreTests(lock_tests.BoundedSemaphoreTests, unittest.TestCase):  # type: ignore[misc]
    semtype = _named(lockhouse.BoundedSemaphore)
