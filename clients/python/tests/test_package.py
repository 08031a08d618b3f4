"""The wheel and the sdist, installed into fresh environments; and the README's tour, as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness.server import Server, binary

PROJECT = Path(__file__).resolve().parents[1]


def tour() -> str:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (PROJECT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 6
    return "\n".join(blocks)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(PROJECT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def run_tour(python: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """On a server of its own, as the tour has an id of its own."""
    server = Server(binary(), folder)
    try:
        host, port = server.address
        environment = {"PATH": os.environ["PATH"], "LOCKHOUSE_URL": f"http://{host}:{port}"}
        return subprocess.run(
            [python, "-I", "-c", tour()],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        server.kill()


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_the_tour_runs_from_a_fresh_environment(packages: Path, tmp_path: Path, kind: str) -> None:
    (package,) = packages.glob(kind)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    if kind == "*.tar.gz":
        # The build backend of the sdist is installed first, so that the build itself needs no network.
        subprocess.run([python, "-I", "-m", "pip", "install", "-q", "setuptools>=77"], check=True)
    options = ["-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([python, "-I", "-m", "pip", "install", *options, str(package)], check=True)
    told = run_tour(python, tmp_path)
    assert told.stderr == ""
    assert told.returncode == 0
    assert "one of ten, fence" in told.stdout
    assert "exceeds_capacity" in told.stdout
    typed = subprocess.run(
        [python, "-I", "-c", "import lockhouse; print(lockhouse.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (Path(typed.stdout.strip()) / "py.typed").exists()
