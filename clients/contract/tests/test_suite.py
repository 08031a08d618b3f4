"""``scripts/test`` fails when a part of it fails, says which, and leaves nothing behind; on fakes of what it runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "test"
PROGRAM = SCRIPT.with_name("test.d") / "program"

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
what="$*"
what=${what%% --config*}
echo "cargo $what" >>calls
grep -q "^SigIgn:.*0$" /proc/self/status || exit 102
if [[ $what == "${HANGS-}" ]]; then sleep 60; fi
[[ $what != "${FAILS-}" ]] || exit 101
"""
# The script that LOCKHOUSE_TEST_BESIDE names.
BESIDE = """
echo "beside" >>calls
[[ ${FAILS-} != beside ]]
"""
RELEASE = "build --release --locked --bin lockhouse"
TESTS = "test --workspace --locked --tests"


def programs(kind: str) -> tuple[str, str]:
    """Cargo's arguments for the programs in the script's array ``kind``, and the script's name for that run."""
    names = re.findall(rf"^{kind}=\((.*)\)$", SCRIPT.read_text(), re.MULTILINE)[0].split()
    arguments = ["test --workspace --locked", *(f"--test={name}" for name in names)]
    return " ".join(arguments), f"cargo test of {' '.join(names)}"


ALONE, ALONE_NAMED = programs("alone")
WAITING, WAITING_NAMED = programs("waiting")
IN_DOCS = "test --workspace --locked --doc"


class Suite:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        fakes = {
            "scripts/services": SERVICES,
            "scripts/test-clients": CLIENTS,
            "bin/cargo": CARGO,
            "bin/beside": BESIDE,
        }
        for name, code in fakes.items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"#!/usr/bin/env bash\n{code}\n")
            file.chmod(0o755)
        shutil.copy(SCRIPT, folder / "scripts" / "test")
        shutil.copytree(SCRIPT.with_name("test.d"), folder / "scripts" / "test.d")

    def begin(self, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        # By this name, what the script has begun is found again, whatever it is.
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKHOUSE_", "CARGO_"))}
        environment = ours | {"PATH": path, "SUITE": str(self.folder)} | settings
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


def test_it_runs_no_client_beside_the_tests_and_nothing_beside_those_that_run_alone(suite: Suite) -> None:
    code, told = suite.run()
    assert (code, "failed" in told) == (0, False)
    clients = [call for call in suite.calls if call.startswith("clients")]
    assert clients == ["clients install", "clients languages", "clients contract"]
    assert set(suite.calls[-3:-1]) == {f"cargo {TESTS}", f"cargo {WAITING}"}
    assert suite.calls[-4] == f"cargo {ALONE}"
    assert suite.calls[-1] == "services down"


def test_arguments_leave_the_clients_out(suite: Suite) -> None:
    assert suite.run("--test", "api")[0] == 0
    assert [call for call in suite.calls if not call.startswith("services")] == [
        f"cargo {RELEASE}",
        "cargo test --workspace --locked --test api",
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


@pytest.mark.parametrize(
    "fails, named",
    [
        (ALONE, ALONE_NAMED),
        (TESTS, "cargo test"),
        (WAITING, WAITING_NAMED),
        (IN_DOCS, "cargo test --doc"),
        ("beside", "beside"),
    ],
)
def test_a_part_of_rust_that_fails_fails_the_suite_and_the_others_run(suite: Suite, fails: str, named: str) -> None:
    code, told = suite.run(FAILS=fails, LOCKHOUSE_TEST_BESIDE="beside")
    assert (code, told.splitlines()[-1]) == (1, f"failed: {named}")
    cargos = [f"cargo {arguments}" for arguments in (IN_DOCS, ALONE, TESTS, WAITING)]
    assert {"clients contract", "beside", *cargos} < set(suite.calls)


def test_it_says_how_long_each_part_took(suite: Suite) -> None:
    _, told = suite.run(LOCKHOUSE_TEST_BESIDE="beside")
    times = told[told.index("took in all") :].splitlines()[1:]
    assert [line.split(" s  ")[1] for line in times] == [
        "build: release",
        "servers and packages",
        "build: testkit",
        "clients: languages",
        "build: tests",
        "tests in docs",
        "clients: contract",
        ALONE_NAMED,
        "cargo test",
        "beside",
        WAITING_NAMED,
    ]


def test_the_time_of_each_test_program_is_kept_and_those_that_run_elsewhere_are_left_out(tmp_path: Path) -> None:
    program = tmp_path / "api-0123456789abcdef"
    program.write_text("#!/bin/sh\nexit $1\n")
    program.chmod(0o755)
    times, failed = tmp_path / "times", tmp_path / "failed"
    settings = os.environ | {"LOCKHOUSE_TEST_TIMES": str(times), "LOCKHOUSE_TEST_FAILED": str(failed)}

    def code_of(argument: str, elsewhere: str) -> int:
        environment = settings | {"LOCKHOUSE_TEST_ELSEWHERE": elsewhere}
        return subprocess.run([PROGRAM, program, argument], env=environment, check=False).returncode

    assert [code_of("0", ""), code_of("101", "line"), code_of("102", "line api")] == [0, 101, 0]
    assert re.fullmatch(r"( *\d+ s  api\n){2}", times.read_text())
    assert failed.read_text() == "api ended with exit code 101\n"


def test_a_build_that_fails_ends_it_and_the_clients_that_run(suite: Suite) -> None:
    code, _ = suite.run(FAILS=RELEASE, HANGS="install")
    assert code == 101
    assert suite.left() == []


@pytest.mark.parametrize("hangs", ["languages", ALONE, TESTS, WAITING])
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


def test_the_programs_that_the_script_names_exist() -> None:
    crates = SCRIPT.parents[1] / "crates"
    for option in [*ALONE.split()[3:], *WAITING.split()[3:]]:
        name = option.removeprefix("--test=")
        found = [*crates.glob(f"*/tests/{name}.rs"), *crates.glob(f"*/tests/{name}/main.rs")]
        assert found, name
