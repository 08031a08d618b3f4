"""The Airflow operator, on a real Airflow: scheduler, triggerer and one worker."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Optional

import pytest
from airflow.sdk.exceptions import TaskDeferred
from harness.server import Server, binary

import lockhouse
from lockhouse.airflow import LimitedPythonOperator, PermitsTrigger

# A busy machine takes a minute to import Airflow.
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(binary(), tmp_path_factory.mktemp("server"))
    host, port = server.address
    yield f"http://{host}:{port}"
    server.kill()


@pytest.fixture
def client(url: str, monkeypatch: pytest.MonkeyPatch) -> lockhouse.Client:
    monkeypatch.setenv("LOCKHOUSE_URL", url)
    return lockhouse.Client()


class Airflow:
    """All of its processes, with one worker."""

    def __init__(self, folder: Path, url: str) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            self.port = port = listener.getsockname()[1]
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LOCKHOUSE_URL": url,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).with_name("dags")),
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
            "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "1",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        }
        with (folder / "standalone.log").open("w") as log:
            self.processes = subprocess.Popen(
                ["airflow", "standalone"],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_up(self) -> bool:
        """Whether tasks can run: they ask the API server for what they need."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/monitor/health").close()
        except OSError:
            return False
        return bool(self.query("select 1 from dag where dag_id = 'limited'"))

    def trigger(self, dag: str) -> None:
        command = ["airflow", "dags", "trigger", dag]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    def query(self, sql: str, *values: str) -> list[Any]:
        try:
            with closing(sqlite3.connect(f"file:{self.folder}/airflow.db?mode=ro", uri=True)) as database:
                return database.execute(sql, values).fetchall()
        except sqlite3.OperationalError:  # It is being made.
            return []

    def state(self, task: str) -> Optional[str]:
        found = self.query("select state from task_instance where task_id = ?", task)
        return found[0][0] if found else None

    def has_seen_the_worker_leave(self, dag: str) -> bool:
        """Whether the scheduler knows that the worker of the DAG's task ended.

        It fails a deferred task that goes on before: https://github.com/apache/airflow/issues/67287.
        """
        told = f"Received executor event with state success for task instance TaskInstanceKey(dag_id='{dag}'"
        return told in (self.folder / "standalone.log").read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, self.log()
            assert self.processes.poll() is None, self.log()
            time.sleep(0.2)

    def log(self) -> str:
        """The last lines that its processes and the tasks logged, without the calls that succeeded."""
        told = []
        for path in [self.folder / "standalone.log", *sorted(self.folder.glob("logs/**/*.log"))]:
            lines = [line for line in path.read_text().splitlines() if "status_code=2" not in line]
            told.append("\n".join([f"== {path.relative_to(self.folder)}", *lines[-40:]]))
        return "\n".join(told)

    def stop(self) -> None:
        # All of its processes. Nothing of it is used again.
        os.killpg(self.processes.pid, signal.SIGKILL)
        self.processes.wait()


@pytest.fixture
def airflow(client: lockhouse.Client, url: str, tmp_path: Path) -> Iterator[Airflow]:
    airflow = Airflow(tmp_path, url)
    yield airflow
    airflow.stop()


def test_a_task_waits_in_the_triggerer(client: lockhouse.Client, airflow: Airflow) -> None:
    client.define("gpu", 1)
    airflow.until(airflow.is_up)
    with client.request({"gpu": 1}):
        airflow.trigger("limited")
        airflow.until(lambda: airflow.state("held") == "deferred")
        airflow.until(lambda: len(client.waiting("gpu")) == 1)
        # The only worker is free for others meanwhile.
        airflow.trigger("plain")
        airflow.until(lambda: airflow.state("plain") == "success")
        assert airflow.state("held") == "deferred"
        airflow.until(lambda: airflow.has_seen_the_worker_leave("limited"))
    airflow.until(lambda: airflow.state("held") in ("success", "failed"))
    assert airflow.state("held") == "success", airflow.log()
    (told,) = airflow.query("select value from xcom where task_id = 'held' and key = 'return_value'")
    assert "airflow limited.held " in str(told[0])
    assert client.status("gpu").in_use == 0


def test_a_task_that_asks_too_much_fails_at_once(client: lockhouse.Client) -> None:
    client.define("small", 1)
    operator = LimitedPythonOperator(task_id="t", permits={"small": 2}, python_callable=lambda: "done")
    with pytest.raises(lockhouse.RefusedError) as error:
        operator.execute(CONTEXT)
    assert error.value.code == "exceeds_capacity"


CONTEXT = {"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r")}


def test_a_request_that_ended_before_the_worker_took_it_over_is_asked_for_again(
    client: lockhouse.Client,
) -> None:
    client.define("late", 1)
    operator = LimitedPythonOperator(task_id="t", permits={"late": 1}, python_callable=lambda: "done")
    held = client.request({"late": 1}).acquire()
    with pytest.raises(TaskDeferred) as first:
        operator.execute(CONTEXT)
    trigger = first.value.trigger
    assert isinstance(trigger, PermitsTrigger)
    held.release()
    granted = client.request(
        {"late": 1}, external_id=trigger.external_id, owner=trigger.ask["owner"], wait=0
    ).acquire()
    granted.release()
    event = {"external_id": trigger.external_id}
    with pytest.raises(TaskDeferred) as second:
        operator.execute_with_permits(CONTEXT, event)
    assert second.value.trigger.external_id != trigger.external_id
    assert client.status("late").in_use == 0
