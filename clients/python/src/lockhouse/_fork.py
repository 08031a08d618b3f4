"""The state that a child of ``fork`` must forget: connections and locks that belong to its parent."""

from __future__ import annotations

import os
from typing import Any, Callable
from weakref import WeakKeyDictionary

_objects: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def on_fork(it: Any, forget: Callable[[Any], None]) -> None:
    """Calls ``forget(it)`` in every child of a fork, while ``it`` lives."""
    _objects[it] = forget


def _in_child() -> None:
    for it, forget in list(_objects.items()):
        forget(it)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
