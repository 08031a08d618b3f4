"""Clients of all languages on the same semaphores, while the server is killed and answers are lost.

Each process is told to acquire and release by a thread here, which writes down what it saw: a hold lasts at least
from when its grant was seen until its release was told, its loss was told, or its process was killed. ``problems``
looks in that history for a moment with more permits held than there are (P1), for a slot that two held, and for fences
that fell (P7). The proxies write down the calls of the clients and their answers, and the threads write down what the
clients say of their holds. ``broken`` holds both against all promises, together with the rows that are left.
"""

import itertools
import json
import random
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .history import ClientHistory, History
from .proxy import Proxy
from .runner import Runner
from .server import Server

TTL_MS = 3000
CALL_S = 60


@dataclass
class Hold:
    """One grant as its client saw it; times by this process's monotonic clock."""

    holder: str
    permits: dict
    fences: dict
    slots: dict
    asked_at: float
    granted_at: float
    ended_at: float = None
    released_at: float = None
    """When the release was answered, if it was."""
    ask: dict = None
    answer: dict = None


@dataclass(frozen=True)
class Plan:
    """The semaphores: capacities of plain ones and of slotted ones, and those that a template creates."""

    plain: dict
    slotted: dict
    template: str
    of_template: dict

    @property
    def capacities(self):
        return self.plain | self.slotted | self.of_template


class Fleet:
    def __init__(self, languages, processes, binary, plan, seed):
        self._languages = languages
        self._processes = processes
        self._plan = plan
        self._clients = itertools.count(1)
        self._random = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="lockhouse-fleet."))
        self._notes = self.folder / "history"
        self._notes.mkdir()
        self._own = History(self._notes / "harness", 0)
        self._server = Server(binary, self.folder)
        self._proxies = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.holds = []
        self.losses = 0
        self.kills = 0
        self.restarts = 0
        self.errors = {}
        self.failures = []

    def run(self, seconds):
        for name, capacity in (self._plan.plain | self._plan.slotted).items():
            body = {"capacity": capacity, "slots": name in self._plan.slotted}
            self._done("PUT", f"/v1/semaphores/{name}", body)
        (capacity_of_each,) = set(self._plan.of_template.values())
        self._done("PUT", f"/v1/templates/{quote(self._plan.template, safe='')}", {"capacity": capacity_of_each})
        for name, capacity in (self._plan.plain | self._plan.slotted).items():
            self._own.defines(name, capacity)
        self._own.sets_template(self._plan.template, capacity_of_each)
        threads = [
            threading.Thread(target=self._watched, args=(f"{name}{number}", language, self._random.random()))
            for name, language in self._languages.items()
            for number in range(self._processes)
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                time.sleep(self._random.uniform(1, 4))
                self._disturb()
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self._wait_for_all_permits()
            self._server.kill()

    def broken(self, checker):
        """The problems that the checker of histories prints, a line each, and its last line: how much it read."""
        database = f"sqlite:{self.folder / 'lockhouse.db'}"
        told = subprocess.run([checker, self._notes, database], capture_output=True, text=True, check=False)
        assert told.returncode in (0, 1), told.stderr
        *found, seen = told.stdout.splitlines()
        return found, seen

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _done(self, method, path, body):
        status, answer = self._server.call(method, path, body)
        assert status == 201, answer

    def _disturb(self):
        if self._random.random() < 0.4:
            self._server.kill()
            time.sleep(self._random.uniform(0, 1))
            self._server.start()
            self.restarts += 1
            for proxy in list(self._proxies):
                proxy.upstream = self._server.address
        for proxy in list(self._proxies):
            what = self._random.choice(["drop_reply", "cut", "repeat", "none"])
            if what != "none":
                proxy.add_fault({"on": self._random.choice(["PUT", "DELETE", "POST"]), "do": what})

    def _wait_for_all_permits(self):
        """All permits come free: those that killed processes held end after their time to live."""
        ask = [{"semaphore": name, "count": capacity} for name, capacity in self._plan.capacities.items()]
        body = {"permits": ask, "wait_ms": TTL_MS + 2000, "ttl_ms": 60_000}
        path = "/v1/requests/all-of-it"
        noted = self._own.call(f"PUT {path}", json.dumps(body))
        status, answer = self._server.call("PUT", path, body)
        self._own.answer(noted, status, json.dumps(answer))
        assert status == 201, f"not all permits came back: {answer}"

    def _watched(self, *work):
        try:
            self._work(*work)
        except Exception as error:
            self.failures.append(f"{work[0]}: {error!r}")

    def _work(self, name, language, seed):
        chance = random.Random(seed)
        runner = None
        numbers = itertools.count()
        while not self._stop.is_set():
            if runner is None:
                runner = self._start(f"{name}.{next(numbers)}", language)
            hold = self._acquire(runner, chance)
            if hold is None:
                continue
            # Now and then longer than it lasts without a renewal.
            time.sleep(1.3 * TTL_MS / 1000 if chance.random() < 0.005 else chance.uniform(0, 0.05))
            if chance.random() < 0.01:
                hold.ended_at = time.monotonic()
                runner.close()
                runner.history.dies()
                runner = None
                self.kills += 1
            else:
                self._release(runner, hold)
        if runner:
            runner.close()

    def _start(self, name, language):
        # The checker takes numbers of one thousand for one process.
        number = 1000 * next(self._clients)
        history = History(self._notes / name, number)
        proxy = Proxy(self._server.address, history=history)
        self._proxies.append(proxy)
        runner = Runner(language, self.folder, name)
        runner.history = history
        runner.says = ClientHistory(self._notes / f"{name}-says", number + 1)
        runner.answer(runner.begin("connect", {"url": proxy.url}), CALL_S)
        return runner

    def _acquire(self, runner, chance):
        names = [chance.choice(sorted(self._plan.of_template))] if chance.random() < 0.6 else []
        others = sorted(self._plan.plain | self._plan.slotted)
        names += chance.sample(others, chance.randint(0 if names else 1, len(others)))
        permits = {name: 1 for name in names}
        asked_at = time.monotonic()
        ask = {"permits": permits, "owner": runner.name, "ttl_ms": TTL_MS, "wait_ms": 5000}
        answer = runner.answer(runner.begin("acquire", {"as": "p", **ask}), CALL_S)
        if "error" in answer:
            code = answer["error"]["code"]
            with self._lock:
                self.errors[code] = self.errors.get(code, 0) + 1
            return None
        told = answer["ok"]
        granted_at = time.monotonic()
        runner.says.holds(ask, told, asked_at, granted_at)
        hold = Hold(runner.name, permits, told["fences"], told["slots"], asked_at, granted_at, ask=ask, answer=told)
        with self._lock:
            self.holds.append(hold)
        return hold

    def _release(self, runner, hold):
        looked_at = time.monotonic()
        if not runner.answer(runner.begin("is_lost", {"permit": "p"}), CALL_S)["ok"]["lost"]:
            runner.says.holds(hold.ask, hold.answer, looked_at, time.monotonic())
        hold.ended_at = time.monotonic()
        losses = [at for at, it in list(runner.seen) if it.get("event") == "lost" and at >= hold.granted_at]
        if losses:
            hold.ended_at = losses[0]
            self.losses += 1
        noted = runner.says.releases(hold.answer["external_id"])
        answer = runner.answer(runner.begin("release", {"permit": "p"}), CALL_S)
        if answer.get("ok", {}).get("released"):
            hold.released_at = time.monotonic()
            runner.says.released(noted)


def problems(holds, capacities, slotted=()):
    """The problems in the history, in words."""
    found = [problem for name in slotted for problem in _slots_of_two(holds, name)]
    for name, capacity in capacities.items():
        mine = [hold for hold in holds if name in hold.permits]
        changes = [(hold.granted_at, hold.permits[name], hold) for hold in mine]
        changes += [(hold.ended_at, -hold.permits[name], hold) for hold in mine]
        held = 0
        # A hold that ends at the moment at which another begins ends first.
        for _, change, hold in sorted(changes, key=lambda it: it[:2]):
            held += change
            if held > capacity:
                found.append(f"{held} of {capacity} permits of {name} were held when {hold.holder} got {hold.fences}")
        fences = [hold.fences[name] for hold in mine]
        if len(set(fences)) < len(fences):
            found.append(f"a fence of {name} was granted twice")
        released = sorted((hold for hold in mine if hold.released_at), key=lambda it: it.released_at)
        highest = 0
        ended = iter(released)
        following = next(ended, None)
        for hold in sorted(mine, key=lambda it: it.asked_at):
            while following and following.released_at < hold.asked_at:
                highest = max(highest, following.fences[name])
                following = next(ended, None)
            if hold.fences[name] <= highest:
                found.append(f"{hold.holder} got fence {hold.fences[name]} of {name} after {highest} had come back")
    return found


def _slots_of_two(holds, name):
    latest = {}
    for hold in sorted((it for it in holds if name in it.permits), key=lambda it: it.granted_at):
        slots = hold.slots.get(name) or []
        if len(slots) != hold.permits[name]:
            yield f"{hold.holder} got slots {slots} of {name} for {hold.permits[name]} permits"
        for slot in slots:
            before = latest.get(slot)
            if before and before.ended_at > hold.granted_at:
                yield f"slot {slot} of {name} was {before.holder}'s when {hold.holder} got it"
            if not before or hold.ended_at > before.ended_at:
                latest[slot] = hold
