"""Airflow tasks that run under permits, and that wait for them in the triggerer instead of in a worker.

>>> LimitedPythonOperator(task_id="render", permits={"gpu": 1}, python_callable=render)

For other operators, ``Limited`` comes before the operator's class:

>>> class LimitedBashOperator(Limited, BashOperator): ...

``LOCKHOUSE_URL`` and ``LOCKHOUSE_TOKEN`` name the server, in workers and in triggerers. Airflow 3 is not a
dependency of this package.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from . import errors
from .client import shared_client

DEFAULT_TTL_S = 300.0
AGAIN_AFTER_S = 5.0


class Limited(BaseOperator):
    """Before the class of an operator: its task runs only while it holds ``permits``, ``{semaphore: count}``.

    If there is no room, the task is deferred: the triggerer waits in the semaphore's line for it, and no
    worker is occupied. ``ttl`` bounds how long a worker may take to go on with the task after the grant, and
    how long the permits outlive a worker that dies, in seconds.

    A task whose hold was lost while it ran fails with ``LostError``. The operator must not defer by itself,
    as that would release the permits.
    """

    def __init__(
        self, *, permits: Mapping[str, int], ttl: float = DEFAULT_TTL_S, priority: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.permits = dict(permits)
        self.ttl = ttl
        self.priority = priority

    def execute(self, context: Any) -> Any:
        return self.execute_with_permits(context, {"external_id": _fresh_id()})

    def execute_with_permits(self, context: Any, event: Mapping[str, Any]) -> Any:
        """Goes on after a wait, with the request that was granted to the triggerer."""
        if "refused" in event:
            raise errors.RefusedError(event["refused"], event["detail"])
        ask = {"permits": self.permits, "ttl": self.ttl, "priority": self.priority, "owner": _owner(context)}
        request = _request(event["external_id"], ask, wait=0.0)
        try:
            permit = request.acquire()
        except (errors.ExhaustedError, errors.UnavailableError, errors.EndedError) as error:
            # A request that ended before this worker took it over is never granted again.
            has_ended = isinstance(error, errors.EndedError)
            external_id = _fresh_id() if has_ended else event["external_id"]
            trigger = PermitsTrigger(external_id, ask)
            # Which raises.
            return self.defer(trigger=trigger, method_name="execute_with_permits")
        with permit:
            return super().execute(context)


class LimitedPythonOperator(Limited, PythonOperator):
    """A ``PythonOperator`` that runs while it holds permits."""


class PermitsTrigger(BaseTrigger):
    """Waits for permits. Another triggerer that takes it over goes on with the same request."""

    def __init__(self, external_id: str, ask: Mapping[str, Any]) -> None:
        super().__init__()
        self.external_id = external_id
        self.ask = dict(ask)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.PermitsTrigger", {"external_id": self.external_id, "ask": self.ask}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        event = {"external_id": self.external_id}
        while True:
            try:
                permit = await _request(self.external_id, self.ask).aacquire()
            except errors.UnavailableError as error:
                self.log.warning("waiting for permits goes on: %s", error)
                await asyncio.sleep(AGAIN_AFTER_S)
                continue
            except errors.EndedError:
                # The worker asks again.
                pass
            except errors.LockhouseError as error:
                event |= {"refused": error.code, "detail": error.detail}
            else:
                # The worker that goes on with the task finds it by its id.
                permit.forget()
            yield TriggerEvent(event)
            return


def _request(external_id: str, ask: Mapping[str, Any], **wait: Any) -> Any:
    return shared_client(None, None, None).request(external_id=external_id, **ask, **wait)


def _fresh_id() -> str:
    return f"airflow-{uuid.uuid4()}"


def _owner(context: Any) -> str:
    """The task that holds, cut to the 255 bytes of an owner."""
    task = context["ti"]
    owner = f"airflow {task.dag_id}.{task.task_id} {task.run_id}"
    return owner.encode()[:255].decode(errors="ignore").strip()
