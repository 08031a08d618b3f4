"""``scripts/test`` fails when a part of it fails, says which, and leaves nothing behind; on fakes of what it runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "test"

SERVICES = 'if [[ $1 == status ]]; then echo stopped; fi; echo "services $1" >>calls'
CLIENTS = """
echo "clients $1" >>calls
if [[ $1 == "${HANGS-}" ]]; then sleep 60; fi
if [[ $1 == "${FAILS-}" ]]; then
    echo "FAILED tests/test_client.py::test_x - boom"
    echo "test-clients: failed: python"
    exit 1
fi
"""
CARGO = """
echo "cargo $*" >>calls
grep -q "^SigIgn:.*0$" /proc/self/status || exit 102
if [[ "$*" == "${HANGS-}" ]]; then sleep 60; fi
[[ "$*" != "${FAILS-}" ]] || exit 101
"""
RELEASE = "build --release --locked --bin lockhouse"
TESTS = "test --workspace --locked"


class Suite:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, code in {"scripts/services": SERVICES, "scripts/test-clients": CLIENTS, "bin/cargo": CARGO}.items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"#!/usr/bin/env bash\n{code}\n")
            file.chmod(0o755)
        shutil.copy(SCRIPT, folder / "scripts" / "test")

    def begin(self, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        # By this name, what the script has begun is found again, whatever it is.
        environment = os.environ | {"PATH": path, "SUITE": str(self.folder)} | settings
        # Interrupts reach it, also where this test was begun with them ignored.
        command = ["env", "--default-signal=INT", str(self.folder / "scripts" / "test"), *arguments]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *arguments: str, **settings: str) -> tuple[int, str]:
        running = self.begin(*arguments, **settings)
        told, _ = running.communicate(timeout=60)
        return running.returncode, told

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def left(self) -> list[str]:
        """The processes that this suite has begun, and that run."""
        mark = f"SUITE={self.folder}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_text())
            except OSError:
                continue
        return found


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_it_runs_the_clients_beside_the_builds_and_none_beside_the_tests(suite: Suite) -> None:
    code, told = suite.run()
    assert (code, "failed" in told) == (0, False)
    clients = [call for call in suite.calls if call.startswith("clients")]
    assert clients == ["clients install", "clients languages", "clients contract"]
    assert suite.calls[-2:] == [f"cargo {TESTS}", "services down"]


def test_arguments_leave_the_clients_out(suite: Suite) -> None:
    assert suite.run("--test", "api")[0] == 0
    assert [call for call in suite.calls if not call.startswith("services")] == [
        f"cargo {RELEASE}",
        f"cargo {TESTS} --test api",
    ]


@pytest.mark.parametrize("part", ["languages", "contract"])
def test_a_client_that_fails_is_named_at_the_end_and_the_others_run(suite: Suite, part: str) -> None:
    code, told = suite.run(FAILS=part)
    assert code == 1
    assert f"cargo {TESTS}" in suite.calls
    assert told.splitlines()[-3:] == [
        f"failed: scripts/test-clients {part}",
        "FAILED tests/test_client.py::test_x - boom",
        "test-clients: failed: python",
    ]


def test_a_rust_test_that_fails_fails_the_suite(suite: Suite) -> None:
    code, told = suite.run(FAILS=TESTS)
    assert (code, told.splitlines()[-1]) == (1, "failed: cargo test")


def test_a_build_that_fails_ends_it_and_the_clients_that_run(suite: Suite) -> None:
    code, _ = suite.run(FAILS=RELEASE, HANGS="install")
    assert code == 101
    assert suite.left() == []


@pytest.mark.parametrize("hangs", ["languages", TESTS])
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_leaves_no_process_and_no_server(suite: Suite, hangs: str, by: signal.Signals) -> None:
    running = suite.begin(HANGS=hangs)
    what = f"clients {hangs}" if hangs == "languages" else f"cargo {hangs}"
    while what not in suite.calls:
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(by)
    assert running.wait(timeout=30) != 0
    running.communicate()
    assert suite.left() == []
    assert suite.calls[-1] == "services down"
