"""When a hold counts as lost, and when it no longer can be."""

from __future__ import annotations

import threading
import time

import pytest

import lockhouse


@pytest.fixture
def pool(client: lockhouse.Client, name: str) -> str:
    client.define(name, 5)
    return name


def test_a_released_permit_is_never_lost(client: lockhouse.Client, pool: str) -> None:
    told: list[str] = []
    session = client.session(pool, ttl=1.0)
    own = client.request({pool: 1}, ttl=1.0).acquire()
    forgotten = client.request({pool: 1}, ttl=1.0).acquire()
    kept = session.request({pool: 1}).acquire()
    for permit in (own, forgotten, kept):
        permit.lost.then(told.append)
    assert own.release()
    assert kept.release()
    forgotten.forget()
    session.goodbye()
    time.sleep(1.2)
    for permit in (own, forgotten, kept):
        assert not permit.lost
        assert permit.lost.reason is None
        permit.check()
        permit.lost.then(told.append)
        assert repr(permit).endswith(": released>")
    time.sleep(0.05)
    assert told == []


def _wait_for(permit: lockhouse.Permit, seen: list[bool]) -> None:
    seen.append(permit.lost.wait())


def test_a_release_ends_the_wait_for_a_loss(client: lockhouse.Client, pool: str) -> None:
    session = client.session(pool, ttl=60.0)
    for request in (client.request({pool: 1}), session.request({pool: 1})):
        permit = request.acquire()
        seen: list[bool] = []
        waiter = threading.Thread(target=_wait_for, args=(permit, seen), daemon=True)
        waiter.start()
        permit.release()
        waiter.join(5)
        assert seen == [False]
        assert not permit.lost.wait(0.01)
    session.goodbye()


def test_a_permit_that_was_lost_stays_lost_after_its_release(client: lockhouse.Client, pool: str) -> None:
    permit = client.request({pool: 1}, ttl=0.9).acquire()
    client.force(permit.external_id)
    assert permit.lost.wait(5)
    assert not permit.release()
    assert permit.lost.reason == "forced"
    with pytest.raises(lockhouse.LostError):
        permit.check()


def test_a_hold_whose_time_was_over_before_the_release_was_lost(client: lockhouse.Client, pool: str) -> None:
    permit = client.request({pool: 1}).acquire()
    permit.lost._until = time.monotonic()
    permit.release()
    assert permit.lost.reason == "not_renewed"


def test_a_permit_of_a_session_is_lost_with_it(client: lockhouse.Client, pool: str) -> None:
    told = threading.Event()
    session = client.session(pool, ttl=0.9)
    with pytest.raises(lockhouse.LostError), session, session.request({pool: 1}) as permit:
        permit.lost.then(lambda _: told.set())
        client.goodbye(pool)
        assert permit.lost.wait(5)
        assert permit.lost.reason == session.lost.reason == "owner_dead"
        assert told.wait(5)
