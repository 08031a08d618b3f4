"""Numbers that are no durations."""

from __future__ import annotations

import math
from typing import Callable

import pytest

import lockhouse

NO_TTLS = (math.inf, -math.inf, math.nan, 1e300, 1e306, 0.0, 0.0001, -1.0, 367 * 86400.0)


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(lockhouse.RefusedError) as error:
        call()
    assert error.value.code == "invalid_request"


@pytest.mark.parametrize("ttl", NO_TTLS)
def test_what_is_no_ttl_is_refused(client: lockhouse.Client, name: str, ttl: float) -> None:
    client.define(name, 5)
    held = client.request({name: 1}, ttl=None).acquire()
    refused(lambda: client.request({name: 1}, ttl=ttl).acquire())
    refused(lockhouse.Semaphore(name, client=client, ttl=ttl).acquire)
    refused(lambda: client.session("worker", ttl=ttl))
    refused(lambda: client.renew(held.external_id, ttl=ttl))
    assert client.status(name).in_use == 1
    assert held.release()


@pytest.mark.parametrize("idle", [math.inf, math.nan, 1e306])
def test_an_idle_time_must_be_finite(client: lockhouse.Client, idle: float) -> None:
    refused(lambda: client.set_template("customer/*", 2, idle=idle))


def test_a_wait_may_be_over_or_endless_but_must_be_a_number(client: lockhouse.Client, name: str) -> None:
    client.define(name, 1)
    refused(lambda: client.request({name: 1}, wait=math.nan).acquire())
    refused(lambda: lockhouse.Semaphore(name, client=client).acquire(timeout=math.nan))
    with client.request({name: 1}, wait=math.inf):
        for wait in (-1.0, -math.inf):
            with pytest.raises(lockhouse.ExhaustedError):
                client.request({name: 1}, wait=wait).acquire()
        assert not lockhouse.Semaphore(name, client=client).acquire(timeout=-math.inf)


def test_a_timeout_must_be_a_number_above_zero(url: str) -> None:
    for timeout in (math.nan, 0.0, -1.0):
        with pytest.raises(ValueError):
            lockhouse.Client(url, timeout=timeout)
    for timeout in (math.inf, 1e10):
        assert lockhouse.Client(url, timeout=timeout).ready()
        assert list(lockhouse.Client(url, timeout=timeout).semaphores("none")) == []
