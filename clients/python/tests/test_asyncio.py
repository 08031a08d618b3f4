from __future__ import annotations

import asyncio
import time

import pytest

import lockhouse


def test_a_block_has_the_permit(client: lockhouse.Client, name: str) -> None:
    async def main() -> None:
        semaphore = lockhouse.AsyncSemaphore(name, 2, client=client)
        async with semaphore as permit:
            assert client.find(permit.external_id).state == "acquired"
        assert client.status(name).in_use == 0

    asyncio.run(main())


def test_no_more_than_its_capacity_at_once(client: lockhouse.Client, name: str) -> None:
    async def main() -> int:
        semaphore = lockhouse.AsyncSemaphore(name, 3, client=client)
        now, most = 0, 0

        async def work() -> None:
            nonlocal now, most
            async with semaphore:
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.01)
                now -= 1

        await asyncio.gather(*(work() for _ in range(30)))
        return most

    assert asyncio.run(main()) == 3


def test_the_words_of_asyncio(client: lockhouse.Client, name: str) -> None:
    async def main() -> None:
        semaphore = lockhouse.AsyncSemaphore(name, 1, client=client)
        assert await semaphore.acquire()
        assert not await semaphore.try_acquire()
        assert not await semaphore.try_acquire(timeout=0.05)
        await semaphore.release()
        assert client.status(name).in_use == 0
        with pytest.raises(ValueError):
            semaphore.release()

    asyncio.run(main())


def test_a_cancelled_task_leaves_the_line(client: lockhouse.Client, name: str) -> None:
    async def main() -> None:
        semaphore = lockhouse.AsyncSemaphore(name, 1, client=client)
        async with semaphore:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(semaphore.acquire(), 0.3)
        await asyncio.sleep(0.3)
        assert client.status(name).in_use == 0
        assert client.status(name).waiting == 0

    asyncio.run(main())


def test_a_busy_event_loop_loses_no_hold(client: lockhouse.Client, name: str) -> None:
    async def main() -> None:
        async with lockhouse.AsyncSemaphore(name, 1, client=client, ttl=1.0) as permit:
            time.sleep(2)
            assert not permit.lost

    asyncio.run(main())


def test_a_decorated_coroutine_function(client: lockhouse.Client, name: str) -> None:
    @lockhouse.AsyncSemaphore(name, 1, client=client)
    async def count() -> int:
        return client.status(name).in_use

    assert asyncio.run(count()) == 1


def test_a_request_and_its_release(client: lockhouse.Client, name: str) -> None:
    async def main() -> None:
        client.define(name, 2)
        async with client.request({name: 2}):
            assert client.status(name).in_use == 2
        permit = await client.request({name: 1}).aacquire()
        assert await permit.arelease()
        assert not await permit.arelease()

    asyncio.run(main())


def test_a_long_wait_that_is_cancelled_in_a_later_call_leaves_the_line(
    client: lockhouse.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockhouse._wait.LONGEST_S", 0.6)
    monkeypatch.setattr("lockhouse._wait.OVERLAP_S", 0.2)

    async def main() -> None:
        async with lockhouse.AsyncSemaphore(name, 1, client=client) as permit:
            waiting = asyncio.create_task(client.request({name: 1}).aacquire())
            await asyncio.sleep(1.7)
            assert client.status(name).waiting >= 1
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.sleep(0.3)
            assert client.status(name).waiting == 0
            assert not permit.lost

    asyncio.run(main())


def test_a_long_wait_is_granted_in_a_later_call(
    client: lockhouse.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockhouse._wait.LONGEST_S", 0.6)
    monkeypatch.setattr("lockhouse._wait.OVERLAP_S", 0.2)
    client.define(name, 1)
    held = client.request({name: 1}).acquire()
    with pytest.raises(lockhouse.ExhaustedError):
        client.request({name: 1}, wait=1.5).acquire()

    async def main() -> bool:
        waiting = asyncio.create_task(client.request({name: 1}).aacquire())
        await asyncio.sleep(1.7)
        held.release()
        return (await waiting).release()

    assert asyncio.run(main())
