"""The languages that have a client, and how the runner of each is built and started."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CONTRACT = Path(__file__).resolve().parents[1]
CLIENTS = CONTRACT.parent
ROOT = CLIENTS.parent


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
    cargo = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    known = {}
    for name, settings in json.loads((CONTRACT / "languages.json").read_text()).items():
        command = [part.replace("{cargo}", str(cargo)) for part in settings["command"]]
        build = settings.get("build", [])
        if name == "rust" and "LOCKHOUSE_CONTRACT_RUNNER" in os.environ:
            command, build = [os.environ["LOCKHOUSE_CONTRACT_RUNNER"]], []
        known[name] = Language(CLIENTS / settings["cwd"], command, settings.get("env", {}), build)
    return known
