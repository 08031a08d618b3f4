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


def pythons() -> list[Path]:
    """All that are here of those that the client is for, by name or from pyenv: one of each."""
    folders = [Path(it) for it in os.get_exec_path()] + sorted(Path.home().glob(".pyenv/versions/*/bin"))
    names = [f"python3.{minor}" for minor in range(9, 20)]
    found = {name: folder / name for name in names for folder in folders if (folder / name).exists()}
    return [*found.values()]


def run_tour(python: Path, folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the tour on its own server, as the tour chooses its id."""
    server = Server(binary(), folder)
    try:
        host, port = server.address
        environment = {"PATH": os.environ["PATH"], "LOCKHOUSE_URL": f"http://{host}:{port}"}
        return subprocess.run(
            [python, "-I", "-c", before + tour()],
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


@pytest.mark.parametrize("python", pythons(), ids=lambda python: python.name)
def test_the_tour_runs_on_every_python_that_is_here(python: Path, tmp_path: Path) -> None:
    told = run_tour(python, tmp_path, f"import sys; sys.path.insert(0, {str(PROJECT / 'src')!r})\n")
    assert (told.returncode, told.stderr) == (0, "")
    assert "exceeds_capacity" in told.stdout
