"""Clients of all languages on the same semaphores, while the server is killed and answers are lost.

Each process is told to acquire and release by a thread here, which writes down what it saw: a hold lasts at least
from when its grant was seen until its release was told, its loss was told, or its process was killed. ``problems``
looks in that history for a moment with more permits held than there are (P1), and for fences that fell (P7).
"""

import itertools
import random
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .proxy import Proxy
from .runner import Runner
from .server import Server

TTL_MS = 3000
CALL_S = 60


@dataclass
class Hold:
    """What was seen of one grant; times by this process's monotonic clock."""

    holder: str
    permits: dict
    fences: dict
    asked_at: float
    granted_at: float
    ended_at: float = None
    released_at: float = None
    """When the release was answered, if it was."""


class Fleet:
    def __init__(self, languages, processes, binary, semaphores, seed):
        self._languages = languages
        self._processes = processes
        self._semaphores = semaphores
        self._random = random.Random(seed)
        self._folder = Path(tempfile.mkdtemp(prefix="lockhouse-fleet."))
        self._server = Server(binary, self._folder)
        self._proxies = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.holds = []
        self.losses = 0
        self.kills = 0
        self.errors = {}
        self.failures = []

    def run(self, seconds):
        for name, capacity in self._semaphores.items():
            status, answer = self._server.call("PUT", f"/v1/semaphores/{name}", {"capacity": capacity})
            assert status == 201, answer
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
            self._give_back()
            self._server.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _disturb(self):
        if self._random.random() < 0.4:
            self._server.kill()
            time.sleep(self._random.uniform(0, 1))
            self._server.start()
            for proxy in list(self._proxies):
                proxy.upstream = self._server.address
        for proxy in list(self._proxies):
            what = self._random.choice(["drop_reply", "cut", "repeat", "none"])
            if what != "none":
                proxy.add_fault({"on": self._random.choice(["PUT", "DELETE", "POST"]), "do": what})

    def _give_back(self):
        """Everything comes back: what killed processes held is over after its time to live."""
        ask = [{"semaphore": name, "count": capacity} for name, capacity in self._semaphores.items()]
        body = {"permits": ask, "wait_ms": TTL_MS + 2000, "ttl_ms": 60_000}
        status, answer = self._server.call("PUT", "/v1/requests/all-of-it", body)
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
            time.sleep(chance.uniform(0, 0.05))
            if chance.random() < 0.01:
                hold.ended_at = time.monotonic()
                runner.close()
                runner = None
                self.kills += 1
            else:
                self._release(runner, hold)
        if runner:
            runner.close()

    def _start(self, name, language):
        proxy = Proxy(self._server.address)
        self._proxies.append(proxy)
        runner = Runner(language, self._folder, name)
        runner.answer(runner.begin("connect", {"url": proxy.url}), CALL_S)
        return runner

    def _acquire(self, runner, chance):
        names = chance.sample(sorted(self._semaphores), chance.randint(1, len(self._semaphores)))
        permits = {name: 1 for name in names}
        asked_at = time.monotonic()
        ask = {"as": "p", "permits": permits, "ttl_ms": TTL_MS, "wait_ms": 5000}
        answer = runner.answer(runner.begin("acquire", ask), CALL_S)
        if "error" in answer:
            code = answer["error"]["code"]
            with self._lock:
                self.errors[code] = self.errors.get(code, 0) + 1
            return None
        hold = Hold(runner.name, permits, answer["ok"]["fences"], asked_at, time.monotonic())
        with self._lock:
            self.holds.append(hold)
        return hold

    def _release(self, runner, hold):
        hold.ended_at = time.monotonic()
        losses = [at for at, it in list(runner.seen) if it.get("event") == "lost" and at >= hold.granted_at]
        if losses:
            hold.ended_at = losses[0]
            self.losses += 1
        answer = runner.answer(runner.begin("release", {"permit": "p"}), CALL_S)
        if answer.get("ok", {}).get("released"):
            hold.released_at = time.monotonic()


def problems(holds, semaphores):
    """What is wrong in the history, in words."""
    found = []
    for name, capacity in semaphores.items():
        mine = [hold for hold in holds if name in hold.permits]
        changes = [(hold.granted_at, hold.permits[name], hold) for hold in mine]
        changes += [(hold.ended_at, -hold.permits[name], hold) for hold in mine]
        held = 0
        # What ends at the moment at which another begins ends first.
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
