"""A real server for each test run, and a name for each test."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from harness.server import Server, binary

import lockhouse

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary(), folder)
        yield server
        server.kill()


@pytest.fixture(scope="session")
def url(server: Any) -> str:
    host, port = server.address
    return f"http://{host}:{port}"


@pytest.fixture
def client(url: str) -> lockhouse.Client:
    return lockhouse.Client(url)


@pytest.fixture
def name() -> str:
    return f"s{next(_numbers)}"
