from __future__ import annotations

import threading
import time

import pytest

import lockhouse
from lockhouse._ask import pause_s
from lockhouse._keeper import Keeper
from lockhouse.status import time_of


@pytest.mark.parametrize(
    "url", ["mysql://db/x", "lockhouse:7117", "http://", "http://ann:s3cr3t@host", "http://host/?a=1"]
)
def test_a_url_that_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError) as error:
        lockhouse.Client(url)
    assert "s3cr3t" not in str(error.value)


def test_the_environment_says_where_and_who(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LOCKHOUSE_URL", url + "/")
    monkeypatch.setenv("LOCKHOUSE_TOKEN", "lh_secret\n")
    client = lockhouse.Client()
    assert client.ready()
    assert repr(client) == f"<lockhouse.Client of {url}>"
    # The environment is read each time.
    assert repr(lockhouse.Semaphore("s").client) == f"<lockhouse.Client of {url}>"
    monkeypatch.setenv("LOCKHOUSE_URL", "")
    monkeypatch.setenv("LOCKHOUSE_CA_FILE", "")
    assert repr(lockhouse.Semaphore("s").client) == "<lockhouse.Client of http://127.0.0.1:7117>"
    assert lockhouse.Semaphore("s").client is lockhouse.Semaphore("t").client


def test_a_token_that_is_malformed_is_not_shown() -> None:
    with pytest.raises(ValueError) as error:
        lockhouse.Client(token="lh_s3cr3t\n")
    assert "s3cr3t" not in str(error.value)


def test_a_server_that_is_not_there_is_not_ready() -> None:
    assert not lockhouse.Client("http://127.0.0.1:9", timeout=0.3).ready()


def test_pauses_grow_up_to_two_seconds_and_heed_the_server() -> None:
    assert all(0.05 <= pause_s(0, 0) <= 0.1 for _ in range(100))
    assert all(1 <= pause_s(100, 0) <= 2 for _ in range(100))
    assert pause_s(0, 7) == 7


def test_times_are_read_on_every_python() -> None:
    assert time_of("2026-01-02T03:04:05Z").isoformat() == "2026-01-02T03:04:05+00:00"
    assert time_of("2026-01-02T03:04:05.1Z").microsecond == 100_000
    assert time_of("2026-01-02T03:04:05.123456789Z").microsecond == 123_456


def test_errors_are_a_hierarchy_with_the_codes_of_the_server(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    with client.request({name: 1}, external_id=name), pytest.raises(lockhouse.ExhaustedError) as refused:
        client.request({name: 1}, wait=0).acquire()
    assert refused.value.problem["semaphores"] == [name]
    with pytest.raises(lockhouse.EndedError) as ended:
        client.request({name: 1}, external_id=name).acquire()
    assert ended.value.end_reason == "released"
    assert isinstance(ended.value, lockhouse.RefusedError)


def test_a_request_can_be_used_again(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    request = client.request({name: 1}, wait=0)
    with request as first:
        pass
    with request as second:
        assert second.fence() > first.fence()


def test_a_keeper_calls_in_order_and_forgets_what_is_cancelled() -> None:
    keeper = Keeper()
    called: list[int] = []
    done = threading.Event()
    now = time.monotonic()
    keeper.at(now + 0.1, lambda: called.append(2))
    keeper.at(now + 0.05, lambda: called.append(1))
    keeper.at(now + 0.07, lambda: called.append(0)).cancel()
    keeper.at(now + 0.15, done.set)
    assert done.wait(5)
    assert called == [1, 2]


def test_a_job_that_hangs_holds_up_no_other() -> None:
    keeper = Keeper()
    hang, done = threading.Event(), threading.Event()
    keeper.run(lambda: hang.wait(5))
    keeper.run(done.set)
    assert done.wait(2)
    hang.set()
