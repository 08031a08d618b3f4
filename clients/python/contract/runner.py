"""Does what the contract's harness says, by this client. See ../../contract/README.md."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import threading
import time
from typing import Any, Optional

from overhead import measure

import lockhouse


class Runner:
    def __init__(self) -> None:
        self.client: lockhouse.Client
        self.held: dict[str, Any] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.blocks: dict[str, threading.Event] = {}
        self.settings: dict[str, Any] = {}

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            if command["op"] == "exit":
                return
            self.tasks[command["id"]] = asyncio.create_task(self.answer(command))

    async def answer(self, command: dict[str, Any]) -> None:
        number, op = command.pop("id"), command.pop("op")
        try:
            told = await getattr(self, op)(**command)
            say({"id": number, "ok": {} if told is None else told})
        except asyncio.CancelledError:
            say({"id": number, "error": {"code": "cancelled"}})
        except lockhouse.LockhouseError as error:
            say({"id": number, "error": {"code": error.code, "detail": error.detail}})
        except Exception as error:
            say({"id": number, "error": {"code": type(error).__name__, "detail": str(error)}})

    async def connect(self, url: str, timeout_ms: int = 10_000, **settings: Any) -> None:
        self.client = lockhouse.Client(url, timeout=timeout_ms / 1000, **settings)

    async def overhead(self, url: str, semaphore: str, times: int) -> dict[str, list[float]]:
        return await asyncio.to_thread(measure, self.client, url, semaphore, times)

    async def acquire(self, **ask: Any) -> dict[str, Any]:
        name = ask.pop("as")
        if "semaphore" in ask:
            semaphore = lockhouse.Semaphore(ask["semaphore"], ask.get("capacity"), client=self.client)
            permit = await asyncio.to_thread(semaphore.__enter__)
        else:
            permit = await self.request(ask).aacquire()
        self.holds(name, permit)
        return granted(permit)

    async def block(self, **ask: Any) -> None:
        name = ask.pop("as")
        self.blocks[name] = threading.Event()

        def work() -> None:
            with self.request(ask) as permit:
                self.holds(name, permit)
                say({"event": "entered", "permit": name})
                self.blocks[name].wait()

        await asyncio.to_thread(work)

    def request(self, ask: dict[str, Any]) -> lockhouse.Request:
        given: dict[str, Any] = {"external_id": ask.get("external_id"), "priority": ask.get("priority", 0)}
        given["wait"] = seconds(ask.get("wait_ms"))
        if "session" in ask:
            session: lockhouse.Session = self.held[ask["session"]]
            return session.request(ask["permits"], **given)
        if "ttl_ms" in ask:
            given["ttl"] = seconds(ask["ttl_ms"])
        return self.client.request(ask["permits"], owner=ask.get("owner"), **given)

    def holds(self, name: str, permit: Any) -> None:
        self.held[name] = permit
        permit.lost.then(lambda reason: say({"event": "lost", "permit": name, "reason": reason}))

    # The harness's names of commands and members are those of HTTP.

    async def leave(self, permit: str) -> None:
        self.blocks[permit].set()

    async def release(self, permit: str) -> dict[str, Any]:
        return {"released": await self.held[permit].arelease()}

    async def is_lost(self, permit: str) -> dict[str, Any]:
        lost = self.held[permit].lost
        return {"lost": bool(lost), "reason": lost.reason}

    async def session(self, owner: str, ttl_ms: int, **named: str) -> None:
        self.holds(named["as"], await asyncio.to_thread(self.client.session, owner, ttl_ms / 1000))

    async def goodbye(self, session: str) -> dict[str, Any]:
        return {"released": await asyncio.to_thread(self.held[session].goodbye)}

    async def define(self, semaphore: str, capacity: int, **more: Any) -> dict[str, Any]:
        return wire(await asyncio.to_thread(self.client.define, semaphore, capacity, **more))

    async def define_if_missing(self, semaphore: str, capacity: int) -> dict[str, Any]:
        return wire(await asyncio.to_thread(self.client.define_if_missing, semaphore, capacity))

    async def resize(self, semaphore: str, capacity: int) -> dict[str, Any]:
        return wire(await asyncio.to_thread(self.client.resize, semaphore, capacity))

    async def status(self, semaphore: str) -> dict[str, Any]:
        return wire(await asyncio.to_thread(self.client.status, semaphore))

    async def delete(self, semaphore: str) -> None:
        await asyncio.to_thread(self.client.delete, semaphore)

    async def list(self, prefix: Optional[str] = None) -> dict[str, Any]:
        found = await asyncio.to_thread(lambda: [*self.client.semaphores(prefix)])
        return {"semaphores": [wire(it) for it in found]}

    async def history(self, semaphore: str) -> dict[str, Any]:
        found = await asyncio.to_thread(self.client.history, semaphore)
        return {"changes": [wire(it) for it in found]}

    async def waiting(self, semaphore: str) -> dict[str, Any]:
        found = await asyncio.to_thread(self.client.waiting, semaphore)
        return {"waiting": [wire(it) for it in found]}

    async def holders(self, semaphore: str) -> dict[str, Any]:
        found = await asyncio.to_thread(lambda: [*self.client.holders(semaphore)])
        return {"requests": [wire(it) for it in found]}

    async def requests(self, **filters: str) -> dict[str, Any]:
        found = await asyncio.to_thread(lambda: [*self.client.requests(**filters)])
        return {"requests": [wire(it) for it in found]}

    async def find(self, external_id: str) -> dict[str, Any]:
        return wire(await asyncio.to_thread(self.client.find, external_id))

    async def force(self, external_id: str, by: Optional[str] = None) -> dict[str, Any]:
        return {"released": await asyncio.to_thread(lambda: self.client.force(external_id, by=by))}

    async def set_template(
        self, pattern: str, capacity: int, idle_ms: Optional[int] = None
    ) -> dict[str, Any]:
        idle = None if idle_ms is None else idle_ms / 1000
        return wire(await asyncio.to_thread(lambda: self.client.set_template(pattern, capacity, idle=idle)))

    async def templates(self) -> dict[str, Any]:
        return {"templates": [wire(it) for it in await asyncio.to_thread(self.client.templates)]}

    async def delete_template(self, pattern: str) -> None:
        await asyncio.to_thread(self.client.delete_template, pattern)

    async def cancel(self, target: int) -> None:
        self.tasks[target].cancel()

    async def busy(self, ms: int) -> None:
        end = time.monotonic() + ms / 1000
        while time.monotonic() < end:  # The event loop stands still.
            pass


def granted(permit: lockhouse.Permit) -> dict[str, Any]:
    slots = {it.semaphore: [*it.slots] for it in permit.request.permits}
    return {"external_id": permit.external_id, "fences": dict(permit.fences), "slots": slots}


def wire(status: Any) -> dict[str, Any]:
    """As HTTP has it."""
    told: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(status), default=str))
    if "ttl" in told:
        told["ttl_ms"] = None if told["ttl"] is None else round(told["ttl"] * 1000)
    return told


def seconds(ms: Optional[int]) -> Optional[float]:
    return None if ms is None else ms / 1000


OUTPUT = threading.Lock()


def say(message: dict[str, Any]) -> None:
    with OUTPUT:
        print(json.dumps(message), flush=True)


if __name__ == "__main__":
    asyncio.run(Runner().serve())
