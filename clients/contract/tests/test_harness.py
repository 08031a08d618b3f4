"""The contract is itself checked: a client with a defect fails the scenario that is there for it.

Each defect is put into the Python client as its runner starts.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

import pytest

from harness.languages import Language
from harness.scenario import Scenario
from harness.server import binary

CONTRACT = Path(__file__).resolve().parents[1]

DEFECTS = {
    "renews nothing": (
        "lockhouse._hold.Hold._renew_once = lambda hold: None",
        "a_hold_outlives_its_ttl",
    ),
    "renews on the event loop": (
        "import asyncio; tick = lockhouse._hold.Hold._tick\n"
        "loop = []; serve = Runner.serve\n"
        "async def begin(self): loop.append(asyncio.get_running_loop()); await serve(self)\n"
        "Runner.serve = begin\n"
        "lockhouse._hold.Hold._tick = lambda hold: loop[0].call_soon_threadsafe(tick, hold)",
        "a_busy_caller_loses_no_hold",
    ),
    "does not know that it lost": (
        "lockhouse.Lost.reason = property(lambda lost: None)",
        "the_holder_learns_of_the_loss_before_another_is_granted",
    ),
    "counts from when the answer came, without a margin": (
        "import time; lockhouse._hold.give_up_at = lambda sent_at, ttl: time.monotonic() + ttl * 1.5",
        "the_holder_learns_of_the_loss_before_another_is_granted",
    ),
    "goes by the clock of the wall": (
        "import time; time.monotonic = time.time",
        "the_clock_of_the_client_jumps_ahead_and_back",
    ),
    "asks again under another id": (
        "import uuid; ask = lockhouse._ask.once\n"
        "def once(transport, call, deadline, cancel=None):\n"
        "    path = f'/v1/requests/{uuid.uuid4()}' if call.method == 'PUT' else call.path\n"
        "    return ask(transport, lockhouse._http.Call(call.method, path, call.body), deadline, cancel)\n"
        "lockhouse._ask.once = once",
        "an_acquire_whose_answer_was_lost",
    ),
    "asks only once": (
        "lockhouse._ask.FailedTryError.may_retry = property(lambda it: False, lambda it, value: None)",
        "a_connection_that_is_cut",
    ),
    "waits in calls one after the other": (
        "lockhouse._wait.OVERLAP_S = -0.5",
        "a_long_wait_keeps_its_place_over_several_calls",
    ),
    "gives nothing back that a cancelled caller was granted": (
        "lockhouse._background_release.Release.in_background = lambda *of, **more: None",
        "a_grant_that_a_cancelled_caller_never_saw_is_given_back",
    ),
    "leaves its block without a look": (
        "lockhouse.Permit.leave = lambda permit: permit.release()",
        "leaving_the_block_of_a_lost_hold_raises",
    ),
    "takes the answer to another call": (
        "lockhouse._http.CALL_ID = 'no-such-header'",
        "the_answer_to_another_call_is_not_taken",
    ),
    "trusts everybody": (
        "import ssl; ssl.create_default_context = lambda **of: ssl._create_unverified_context()",
        "a_certificate_of_a_stranger_is_refused",
    ),
}


SCENARIOS = sorted({name for _, name in DEFECTS.values()})


def scenario(name: str) -> dict[str, Any]:
    for file in (CONTRACT / "scenarios").glob("*.json"):
        for it in json.loads(file.read_text()):
            if it["name"] == name:
                found: dict[str, Any] = it
                return found
    raise AssertionError(f"there is no scenario {name}")


def with_defect(defect: str) -> Language:
    python = CONTRACT.parent / "python"
    runner = "from runner import *; import lockhouse._wait, lockhouse._ask, lockhouse._background_release"
    code = f"{runner}\n{defect}\nasyncio.run(Runner().serve())"
    path = f"{python / 'src'}:{python / 'contract'}"
    return Language(python, [sys.executable, "-c", code], {"PYTHONPATH": path}, [])


def outcome(name: str, code: str) -> Optional[Exception]:
    try:
        Scenario(scenario(name), with_defect(code), binary()).run()
    except AssertionError as error:
        return error
    return None


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Future[Optional[Exception]]]:
    """The outcome of each defect, and of no defect. The runs go side by side, as they mostly wait."""
    pool = ThreadPoolExecutor(8)
    runs = {defect: pool.submit(outcome, name, code) for defect, (code, name) in DEFECTS.items()}
    return runs | {name: pool.submit(outcome, name, "") for name in SCENARIOS}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_fails_its_scenario(outcomes: dict[str, Future[Any]], defect: str) -> None:
    assert outcomes[defect].result() is not None


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_a_defect_it_passes(outcomes: dict[str, Future[Any]], name: str) -> None:
    assert outcomes[name].result() is None


def test_a_fault_that_no_call_meets_fails() -> None:
    steps = [{"fault": "a", "on": "PUT /", "do": "cut"}, {"client": "a", "do": "list"}]
    with pytest.raises(AssertionError, match="no call met"):
        Scenario({"name": "x", "steps": steps}, with_defect(""), binary()).run()


def test_an_operation_that_a_runner_lacks_fails() -> None:
    steps = [{"client": "a", "do": "levitate"}]
    with pytest.raises(AssertionError, match="it failed"):
        Scenario({"name": "x", "steps": steps}, with_defect(""), binary()).run()
