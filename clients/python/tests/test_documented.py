"""``help()`` says something of everything public."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import lockhouse


def public() -> Iterator[tuple[str, object]]:
    for name in lockhouse.__all__:
        it = getattr(lockhouse, name)
        if name.startswith("_"):
            continue
        yield name, it
        for member, value in vars(it).items() if inspect.isclass(it) else ():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                yield f"{name}.{member}", getattr(it, member)


@pytest.mark.parametrize("name, it", list(public()), ids=lambda it: it if isinstance(it, str) else "")
def test_it_has_a_docstring(name: str, it: object) -> None:
    assert inspect.getdoc(it), name
