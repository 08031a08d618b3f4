"""Blocking work for asyncio, on a worker, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from typing import Callable, Optional, TypeVar

from ._keeper import KEEPER

T = TypeVar("T")


async def in_background(
    work: Callable[[], T],
    cancel: Optional[Callable[[], object]] = None,
    undo: Optional[Callable[[T], object]] = None,
) -> T:
    """The result of ``work``. If the task is cancelled, calls ``cancel``, and ``undo`` with a late result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def job() -> None:
        try:
            result = work()
        except BaseException as error:
            _deliver(loop, _set_error, future, error)
        else:
            if not _deliver(loop, _set_result, future, result, undo) and undo:
                undo(result)

    KEEPER.run(job)
    try:
        return await future
    except asyncio.CancelledError:
        if cancel:
            cancel()
        if undo and future.done() and not future.cancelled() and future.exception() is None:
            KEEPER.run(lambda: undo(future.result()))
        raise


def _deliver(loop: asyncio.AbstractEventLoop, how: Callable[..., None], *what: object) -> bool:
    try:
        loop.call_soon_threadsafe(how, *what)
    except RuntimeError:  # The loop is closed.
        return False
    return True


def _set_error(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _set_result(future: asyncio.Future[T], result: T, undo: Optional[Callable[[T], object]]) -> None:
    if not future.done():
        future.set_result(result)
    elif undo:
        KEEPER.run(lambda: undo(result))
