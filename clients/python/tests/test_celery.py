"""The Celery decorator, on a worker process with two children."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery  # type: ignore[import-untyped]

import lockhouse

# By Redis, if the tests of the project run one.
REDIS = os.environ.get("LOCKHOUSE_TEST_REDIS_URL")

TASKS = """
import os, time
from pathlib import Path
from celery import Celery
import lockhouse.celery

app = Celery("tasks")
app.config_from_object("settings")

@app.task
def plain():
    return "done"

@app.task(bind=True, max_retries=0)
@lockhouse.celery.limited(lambda name, *_: {name: 1}, countdown=0.3, ttl=5)
def limited(task, name, folder=None):
    if folder:
        running = Path(folder) / str(os.getpid())
        running.touch()
        most = len(list(Path(folder).iterdir()))
        time.sleep(0.1)
        running.unlink()
        return most
    return task.request.retries
"""


def until(condition: Any, within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def app(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("celery")
    (folder / "sent").mkdir()
    queue = f"lockhouse-{os.getpid()}"
    settings = {
        "broker_url": REDIS or "filesystem://",
        "broker_transport_options": {}
        if REDIS
        else {key: str(folder / "sent") for key in ("data_folder_in", "data_folder_out", "control_folder")},
        "result_backend": f"file://{folder}",
        "task_default_queue": queue,
        "broker_connection_retry_on_startup": True,
    }
    (folder / "settings.py").write_text("\n".join(f"{name} = {value!r}" for name, value in settings.items()))
    (folder / "tasks.py").write_text(TASKS)
    command = [
        "celery",
        "-A",
        "tasks",
        "worker",
        "-c",
        "2",
        "--without-gossip",
        "--without-mingle",
        "-l",
        "WARNING",
    ]
    environment = {**os.environ, "LOCKHOUSE_URL": url, "C_FORCE_ROOT": "1"}
    with (folder / "log").open("w") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=folder, env=environment, stdout=log, stderr=log
        )
    app = Celery("tasks")
    app.config_from_object(type("settings", (), settings))
    yield app
    worker.terminate()
    worker.wait(20)


def result(sent: Any) -> Any:
    until(sent.ready)
    return sent.get()


def test_a_task_without_room_leaves_the_worker_to_others(
    app: Any, client: lockhouse.Client, name: str
) -> None:
    client.define(name, 1)
    with client.request({name: 1}):
        waiting = [app.send_task("tasks.limited", [name]) for _ in range(4)]
        until(lambda: waiting[0].state == "RETRY")
        # Both children of the worker would be taken if the four waited there.
        assert result(app.send_task("tasks.plain")) == "done"
        assert not any(it.ready() for it in waiting)
    assert [result(it) for it in waiting] == [0, 0, 0, 0]
    assert client.status(name).in_use == 0


def test_no_more_tasks_than_permits_run_at_once(
    app: Any, client: lockhouse.Client, name: str, tmp_path: Path
) -> None:
    client.define(name, 1)
    sent = [app.send_task("tasks.limited", [name, str(tmp_path)]) for _ in range(6)]
    assert [result(it) for it in sent] == [1] * 6
    assert client.status(name).in_use == 0
