"""Celery tasks that run under permits, and that are sent again instead of waiting in a worker.

>>> @app.task(bind=True)
... @lockhouse.celery.limited({"gpu": 1})
... def render(task, frame): ...

``pip install 'lockhouse[celery]'`` installs Celery too.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from typing import Any, Callable, Optional, Union

from celery.exceptions import Retry  # type: ignore[import-untyped]

from . import errors
from .client import Client, shared_client
from .request import DEFAULT_TTL_S
from .semaphore import done, refuse_if_later

Permits = Union[Mapping[str, int], Callable[..., Mapping[str, int]]]


def limited(
    permits: Permits,
    *,
    countdown: float = 5.0,
    ttl: float = DEFAULT_TTL_S,
    client: Optional[Client] = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the function of a task with ``bind=True``: it runs only while it holds ``permits``.

    ``permits`` is ``{semaphore: count}``, or a function of the task's arguments, without the task itself,
    that returns that. If there is no room, the task is sent again to run in about ``countdown`` seconds, and
    the worker is free for others meanwhile. Such a task has no place in the semaphore's line. It is not a
    retry of the task: ``max_retries`` does not count it. While no server answers, it is sent again too.

    Coroutine and generator functions raise ``TypeError``: their body does not run within the call. A task
    whose function returns a coroutine or a generator fails with it.

    A task whose hold was lost while it ran fails with ``LostError``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        refuse_if_later(function)

        @functools.wraps(function)
        def run(task: Any, *args: Any, **kwargs: Any) -> Any:
            asked = permits(*args, **kwargs) if callable(permits) else permits
            there = client or shared_client(None, None, None)
            request = there.request(asked, owner=f"celery {task.request.id}"[:255], ttl=ttl, wait=0.0)
            try:
                permit = request.acquire()
            except (errors.ExhaustedError, errors.UnavailableError) as error:
                raise _sent_again(task, args, kwargs, countdown, error) from error
            with permit:
                return done(function(task, *args, **kwargs))

        return run

    return decorate


def _sent_again(
    task: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], countdown: float, why: Exception
) -> Exception:
    """As ``task.retry`` does, but that the number of its retries stays."""
    if task.request.called_directly:
        return why
    # So that those that found no room together do not come back together.
    countdown *= 0.5 + random.random()
    task.signature_from_request(
        task.request, args, dict(kwargs), countdown=countdown, retries=task.request.retries
    ).apply_async()
    retry: Exception = Retry(exc=why, when=countdown)
    return retry
