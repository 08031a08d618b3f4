"""The check of a fleet's history is itself checked."""

from __future__ import annotations

from typing import Any

from harness.fleet import Hold, problems


def hold(fence: int, granted_at: float, ended_at: float, **more: Any) -> Hold:
    slots = {"s": more.pop("slots", [])}
    return Hold("a", {"s": more.pop("count", 1)}, {"s": fence}, slots, granted_at - 1, granted_at, ended_at, **more)


def test_a_good_history_has_no_problem() -> None:
    holds = [hold(1, 2, 5, released_at=6.0), hold(2, 3, 9), hold(3, 8, 9), hold(4, 9, 12)]
    assert problems(holds, {"s": 2}) == []


def test_more_than_the_capacity_is_found() -> None:
    assert "2 of 1" in problems([hold(1, 2, 5), hold(2, 4, 6)], {"s": 1})[0]
    assert "3 of 2" in problems([hold(1, 2, 5, count=2), hold(2, 4, 6)], {"s": 2})[0]


def test_a_fence_that_falls_is_found() -> None:
    assert "after 7" in problems([hold(7, 2, 3, released_at=3.5), hold(6, 8, 9)], {"s": 1})[0]


def test_a_fence_that_comes_twice_is_found() -> None:
    assert "twice" in problems([hold(7, 2, 3), hold(7, 8, 9)], {"s": 1})[0]


def test_a_slot_that_two_hold_is_found() -> None:
    apart = [hold(1, 2, 5, slots=[0]), hold(2, 3, 6, slots=[1]), hold(3, 5, 9, slots=[0])]
    assert problems(apart, {"s": 2}, ["s"]) == []
    together = [*apart, hold(4, 4, 9, slots=[1])]
    assert "slot 1" in problems(together, {"s": 3}, ["s"])[0]
    assert "for 1 permits" in problems([hold(1, 2, 5)], {"s": 1}, ["s"])[0]
