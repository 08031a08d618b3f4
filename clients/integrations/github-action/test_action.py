"""The step of the action, run as a runner runs it, on a real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.server import Server, binary

ACTION = Path(__file__).resolve().parent
WORKFLOW = """
on: push
jobs:
  deploy:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: ./action
        with:
          url: https://lockhouse.internal:7117
          token: ${{ secrets.LOCKHOUSE_TOKEN }}
          semaphores: staging
          run: make deploy
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(binary(), tmp_path)
    assert server.call("PUT", "/v1/semaphores/gpu", {"capacity": 2, "slots": True})[0] == 201
    assert server.call("PUT", "/v1/semaphores/a%20$(b)", {"capacity": 3})[0] == 201
    yield server
    server.kill()


def step(server: Server, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Puts the inputs where the expressions are, and runs the script by the shell that it names."""
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    values = {name: it.get("default") for name, it in action["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()} | {"url": server.url}
    missing = [name for name, it in action["inputs"].items() if it.get("required") and values[name] is None]
    assert not missing
    (it,) = action["runs"]["steps"]
    assert "${{" not in it["run"]
    path = folder / "bin"
    path.mkdir(exist_ok=True)
    if not (path / "lockhouse").exists():
        (path / "lockhouse").symlink_to(binary())
    environment = {
        "PATH": f"{path}:{os.environ['PATH']}",
        "HOME": str(folder),
        "GITHUB_ACTION_PATH": str(ACTION),
        "GITHUB_REPOSITORY": "ann/app",
        "GITHUB_RUN_ID": "7",
        "GITHUB_JOB": "deploy",
    }
    for name, text in it["env"].items():
        environment[name] = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)
    assert it["shell"] == "bash"
    script = folder / "step.sh"
    script.write_text(it["run"])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_command_runs_under_its_permits(server: Any, tmp_path: Path) -> None:
    look = 'echo "slots $LOCKHOUSE_SLOTS"; lockhouse holders --url "$LOCKHOUSE_URL" -o json'
    told = step(server, tmp_path, semaphores="gpu=2\n  a $(b)\n\n", run=look, priority="-5")
    assert told.returncode == 0, told.stderr
    assert "[0,1]" in told.stdout
    assert "ann/app/actions/runs/7/deploy" in told.stdout
    assert server.call("GET", "/v1/semaphores/gpu")[1]["in_use"] == 0


def test_the_step_fails_as_its_command_does(server: Any, tmp_path: Path) -> None:
    assert step(server, tmp_path, semaphores="gpu", run="false | true").returncode == 1
    assert step(server, tmp_path, semaphores="gpu", run="exit 3").returncode == 3


def test_without_room_it_fails_or_skips(server: Any, tmp_path: Path) -> None:
    ask = {"permits": [{"semaphore": "gpu", "count": 2}], "ttl_ms": 60_000}
    assert server.call("PUT", "/v1/requests/other", ask)[0] == 201
    assert step(server, tmp_path, semaphores="gpu", run="echo ran", wait="100ms").returncode == 75
    told = step(server, tmp_path, semaphores="gpu", run="echo ran", on_busy="skip")
    assert (told.returncode, told.stdout) == (0, "")


def test_a_workflow_that_uses_it_passes_actionlint(tmp_path: Path) -> None:
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "deploy.yml").write_text(WORKFLOW)
    shutil.copytree(ACTION, tmp_path / "action")
    actionlint = ["go", "run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7", "-no-color"]
    for command in (["git", "init", "-q"], actionlint):
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout + told.stderr
