"""A decorated function never runs without its permit."""

from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import lockhouse
from lockhouse.celery import limited


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


async def coroutine() -> int:
    return 1


def plain() -> int:
    raise AssertionError("it ran")


def returns_a_coroutine() -> Any:
    return coroutine()


def returns_a_generator() -> Any:
    return generator()


def returns_an_async_generator() -> Any:
    return async_generator()


async def resolves_with_a_generator() -> Any:
    return generator()


class Generates:
    def __call__(self) -> Iterator[int]:
        yield 1


class Awaits:
    async def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, coroutine, functools.partial(generator), Generates(), Awaits()],
)
def test_a_semaphore_takes_only_functions_that_do_their_work_in_the_call(
    client: lockhouse.Client, name: str, function: Any
) -> None:
    for kind in (lockhouse.Semaphore, lockhouse.BoundedSemaphore):
        with pytest.raises(TypeError):
            kind(name, 1, client=client)(function)
    with pytest.raises(TypeError):
        limited({name: 1}, client=client)(function)


@pytest.mark.parametrize("function", [plain, generator, async_generator, Generates(), returns_a_coroutine])
def test_an_async_semaphore_takes_only_coroutine_functions(
    client: lockhouse.Client, name: str, function: Any
) -> None:
    with pytest.raises(TypeError):
        lockhouse.AsyncSemaphore(name, 1, client=client)(function)


@pytest.mark.parametrize("function", [coroutine, functools.partial(coroutine), Awaits()])
def test_an_async_semaphore_takes_every_coroutine_function(
    client: lockhouse.Client, name: str, function: Any
) -> None:
    async def main() -> None:
        decorated = lockhouse.AsyncSemaphore(name, 1, client=client)(function)
        assert await decorated() == 1

    asyncio.run(main())
    assert client.status(name).fence == 1


@pytest.mark.parametrize("function", [returns_a_coroutine, returns_a_generator, returns_an_async_generator])
def test_work_that_is_left_for_after_the_call_is_refused(
    client: lockhouse.Client, name: str, function: Any
) -> None:
    client.define(name, 1)
    with pytest.raises(TypeError):
        lockhouse.Semaphore(name, client=client)(function)()
    task = types.SimpleNamespace(request=types.SimpleNamespace(id="t"))
    with pytest.raises(TypeError):
        limited({name: 1}, client=client)(lambda task: function())(task)
    assert client.status(name).in_use == 0


def test_work_that_a_coroutine_leaves_for_later_is_refused(client: lockhouse.Client, name: str) -> None:
    async def main() -> None:
        await lockhouse.AsyncSemaphore(name, 1, client=client)(resolves_with_a_generator)()

    with pytest.raises(TypeError):
        asyncio.run(main())
    assert client.status(name).in_use == 0
