from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import lockhouse
from lockhouse._background_release import BACKGROUND_RELEASES
from lockhouse._keeper import KEEPER

SRC = os.path.join(os.path.dirname(os.path.dirname(__file__)), "src")


def in_use(client: lockhouse.Client, name: str) -> int:
    return client.status(name).in_use


def until(condition: Any, within: float = 5.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_block_has_the_permit(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.Semaphore(name, 2, client=client)
    with semaphore as permit:
        assert permit.fence() == permit.fence(name) == 1
        assert permit.slots() == ()
        assert in_use(client, name) == 1
    assert in_use(client, name) == 0


def test_blocks_of_many_threads_release_their_own(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.Semaphore(name, 8, client=client)
    seen: list[bool] = []

    def work() -> None:
        for _ in range(5):
            with semaphore as permit:
                time.sleep(0.002)
                seen.append(client.find(permit.external_id).state == "acquired")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 40
    assert in_use(client, name) == 0


def test_an_error_of_the_block_goes_through(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.Semaphore(name, 1, client=client)
    with pytest.raises(ZeroDivisionError), semaphore as permit:
        client.force(permit.external_id)
        raise ZeroDivisionError
    assert in_use(client, name) == 0


def test_release_of_a_lost_hold_raises_and_adds_no_capacity(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.Semaphore(name, 1, client=client, owner="me")
    semaphore.acquire()
    (held,) = client.requests(owner="me", semaphore=name)
    client.force(held.external_id)
    with pytest.raises(lockhouse.LostError):
        semaphore.release()
    assert client.status(name).capacity == 1


def test_a_decorated_function_runs_under_a_permit(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.BoundedSemaphore(name, 1, client=client)

    @semaphore
    def count(more: int) -> int:
        """It counts."""
        return in_use(client, name) + more

    assert count(1) == 2
    assert count.__doc__ == "It counts."
    assert in_use(client, name) == 0

    async def coroutine() -> None: ...

    with pytest.raises(TypeError):
        semaphore(coroutine)


def test_a_permit_that_is_dropped_is_released(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    permit = client.request({name: 1}).acquire()
    assert in_use(client, name) == 1
    del permit
    gc.collect()
    until(lambda: in_use(client, name) == 0)


def test_a_session_that_is_dropped_is_not_kept(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    permit = client.session(f"owner of {name}", ttl=1).request({name: 1}).acquire()
    time.sleep(2)
    # A permit of it keeps it.
    assert not permit.lost
    with pytest.raises(lockhouse.ExhaustedError):
        client.request({name: 1}, wait=0).acquire()
    permit.forget()
    del permit
    gc.collect()
    client.request({name: 1}, wait=10).acquire().release()


def test_the_garbage_collector_needs_no_lock_to_drop_a_permit(client: lockhouse.Client, name: str) -> None:
    """It may run in the middle of anything, also while this thread has a lock of this package."""
    client.define(name, 1)
    cycle: list[Any] = [client.request({name: 1}).acquire()]
    cycle.append(cycle)
    hold = cycle[0]._hold
    dropped = threading.Event()

    def drop() -> None:
        nonlocal cycle
        with KEEPER._changed, KEEPER._workers, BACKGROUND_RELEASES._changed, hold._lock:
            cycle = []
            gc.collect()
        dropped.set()

    threading.Thread(target=drop, daemon=True).start()
    assert dropped.wait(5)
    until(lambda: in_use(client, name) == 0)


def test_a_forgotten_permit_stays(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    external_id = client.request({name: 1}, ttl=0.5).acquire().forget()
    assert client.find(external_id).state == "acquired"
    with client.request({name: 1}, wait=5):
        assert client.find(external_id).end_reason == "expired"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_fork_neither_renews_nor_releases(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.Semaphore(name, 2, client=client, ttl=1.5)
    with semaphore as permit:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert permit.lost.reason == "forked"
                assert not permit.release()
                permit.leave()
                del permit
                gc.collect()
                # The child's own holds are its own.
                with semaphore as own:
                    time.sleep(2.5)
                    assert not own.lost
                    assert in_use(client, name) == 2
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert not permit.lost
        assert in_use(client, name) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_fork_releases_what_it_acquired(client: lockhouse.Client, name: str) -> None:
    semaphore = lockhouse.Semaphore(name, 2, client=client)
    semaphore.acquire()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            semaphore.acquire()
            assert in_use(client, name) == 2
            semaphore.release()
            assert in_use(client, name) == 1
            # The parent's is not the child's to release, nor a release too many.
            semaphore.release()
            assert (in_use(client, name), client.status(name).capacity) == (1, 2)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    semaphore.release()
    assert in_use(client, name) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_fork_waits_for_no_lock_of_its_parent(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    with client.request({name: 1}) as permit:
        with permit.lost._lock:
            pid = os.fork()
        if pid == 0:
            told: list[str] = []
            permit.lost.then(told.append)
            until(lambda: told == ["forked"])
            os._exit(0)
        until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)
        assert not permit.lost


def _hold_in_child(url: str, name: str, counts: Any) -> None:
    client = lockhouse.Client(url)
    with lockhouse.Semaphore(name, 2, client=client):
        counts.put(in_use(client, name))


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_of_multiprocessing(client: lockhouse.Client, url: str, name: str, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    counts = context.Queue()
    with lockhouse.Semaphore(name, 2, client=client):
        processes = [context.Process(target=_hold_in_child, args=(url, name, counts)) for _ in range(3)]
        for process in processes:
            process.start()
        assert [counts.get(timeout=30) for _ in processes] == [2, 2, 2]
        for process in processes:
            process.join()


def script(code: str, url: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": SRC, "LOCKHOUSE_URL": url}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_exit_releases_what_is_held(client: lockhouse.Client, url: str, name: str) -> None:
    client.define(name, 3)
    code = f"""
import lockhouse
held = [lockhouse.Client().request({{"{name}": 1}}).acquire() for _ in range(2)]
semaphore = lockhouse.Semaphore("{name}")
semaphore.acquire()
raise SystemExit(7)
"""
    process = script(code, url)
    assert process.communicate(timeout=20)[1] == ""
    assert process.returncode == 7
    assert client.status(name).fence > 2
    assert in_use(client, name) == 0


def test_an_interrupted_wait_leaves_the_line(client: lockhouse.Client, url: str, name: str) -> None:
    client.define(name, 1)
    with client.request({name: 1}):
        # Where the tests themselves run in the background, their children ignore the signal.
        heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        process = script(f"import lockhouse; {heed}\nwith lockhouse.Semaphore('{name}'): print('ran')", url)
        until(lambda: client.status(name).waiting == 1)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=10)
        assert "KeyboardInterrupt" in error
        assert out == ""
        until(lambda: client.status(name).waiting == 0)
    assert in_use(client, name) == 0


def test_a_callback_that_comes_late_is_called_at_once(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    permit = client.request({name: 1}, ttl=0.6).acquire()
    client.force(permit.external_id)
    assert permit.lost.wait(3)
    told: list[str] = []
    permit.lost.then(told.append)
    until(lambda: told == ["forced"])
    with pytest.raises(lockhouse.LostError) as error:
        permit.check()
    assert (error.value.code, error.value.reason) == ("lost", "forced")


def test_lost_wait_times_out(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    with client.request({name: 1}) as permit:
        began = time.monotonic()
        assert not permit.lost.wait(0.2)
        assert 0.2 <= time.monotonic() - began < 2
