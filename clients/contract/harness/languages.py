"""The languages that have a client, and how the runner of each is built and started."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CONTRACT = Path(__file__).resolve().parents[1]
CLIENTS = CONTRACT.parent
ROOT = CLIENTS.parent
CARGO = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


@dataclass(frozen=True)
class Language:
    cwd: Path
    command: list
    env: dict
    build_command: list

    def build(self):
        if self.build_command:
            subprocess.run(self.build_command, cwd=self.cwd, check=True)


def languages():
    """By name. The Rust runner is ``LOCKHOUSE_CONTRACT_RUNNER``, if it was built before."""
    known = {}
    for name, settings in json.loads((CONTRACT / "languages.json").read_text()).items():
        command = [part.replace("{cargo}", str(CARGO)) for part in settings["command"]]
        build = settings.get("build", [])
        if name == "rust" and "LOCKHOUSE_CONTRACT_RUNNER" in os.environ:
            command, build = [os.environ["LOCKHOUSE_CONTRACT_RUNNER"]], []
        known[name] = Language(CLIENTS / settings["cwd"], command, settings.get("env", {}), build)
    return known


def checker():
    """The checker of histories, which stands beside the Rust runner."""
    return Path(os.environ.get("LOCKHOUSE_CONTRACT_RUNNER", CARGO / "debug" / "contract")).with_name("history")


def build_checker():
    if "LOCKHOUSE_CONTRACT_RUNNER" not in os.environ:
        command = ["cargo", "build", "--locked", "-p", "lockhouse-testkit", "--bin", "history"]
        subprocess.run(command, cwd=ROOT, check=True)
