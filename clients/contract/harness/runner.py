"""One client process: the runner of a language, told what to do by lines of JSON."""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path


class Runner:
    def __init__(self, language, folder, name, environment=None):
        self.name = name
        self._log = Path(folder) / f"{name}.log"
        self._process = subprocess.Popen(
            language.command,
            cwd=language.cwd,
            env=os.environ | language.env | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
            bufsize=1,
        )
        self._lock = threading.Lock()
        self._next_id = 0
        self._answers = {}
        self.events = queue.Queue()
        self.seen = []
        """Events and answers with the time at which they came."""
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self, op, arguments):
        """Sends a command; its id."""
        with self._lock:
            self._next_id += 1
            id = self._next_id
            self._answers[id] = queue.Queue()
        self._process.stdin.write(json.dumps({"id": id, "op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        return id

    def answer(self, id, within_s):
        try:
            return self._answers[id].get(timeout=within_s)
        except queue.Empty:
            raise AssertionError(f"{self.name} did not answer within {within_s} s; {self.said()}") from None

    def signal(self, what):
        signals = {"stop": signal.SIGSTOP, "continue": signal.SIGCONT, "kill": signal.SIGKILL}
        self._process.send_signal(signals[what])

    def wait(self, within_s):
        return self._process.wait(within_s)

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def said(self):
        text = self._log.read_text().strip()
        return f"its stderr: {text[-2000:]}" if text else "its stderr is empty"

    def _read(self):
        for line in self._process.stdout:
            at = time.monotonic()
            try:
                message = json.loads(line)
            except ValueError:
                continue
            self.seen.append((at, message))
            if "event" in message:
                self.events.put(message)
            else:
                self._answers[message["id"]].put(message)
