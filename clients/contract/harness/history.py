"""The calls of clients and their answers, as the checker of histories reads them.

The format is that of ``crates/lockhouse-testkit/src/torture/notes.rs``: a line when a call comes, and another when it
was answered, by the machine's monotonic clock. The bin ``history`` of that crate holds all of it, and the rows that are
left, against the promises.

A proxy notes what passes it in a ``History``. A client's reports of its holds are noted in a ``ClientHistory``, also
as calls and answers, so that the checker compares the two by the ids of the requests.
"""

import json
import threading
import time
from urllib.parse import unquote, urlsplit

REFUSALS = {
    "exceeds_capacity": "much",
    "unknown_semaphore": "semaphore",
    "unknown_request": "request",
    "idempotency_conflict": "conflict",
}


class History:
    """The file of one process."""

    def __init__(self, path, client):
        self._file = path.open("w")
        self._client = client
        self._lock = threading.Lock()
        self._number = 0

    def call(self, line, body):
        """Notes that a call came. ``None`` if the checker knows no such call."""
        words = _call(line, body)
        return words and (self._begin(words), words[0])

    def answer(self, call, status, body):
        if call:
            self._end(call[0], _answer(call[1], status, json.loads(body or b"null")))

    def no_answer(self, call):
        """It may have been done."""
        if call:
            self._end(call[0], "U")

    def dies(self):
        self._end(self._begin("Z"), "D")

    def defines(self, semaphore, capacity):
        self._end(self._begin(f"D {semaphore} {capacity}"), "D")

    def sets_template(self, pattern, capacity):
        self._end(self._begin(f"T {pattern} {capacity}"), "D")

    def close(self):
        self._file.close()

    def _begin(self, words, at_us=None):
        with self._lock:
            self._number += 1
            self._write(f"B {self._number} {self._client} {at_us or _now_us()} {words}")
            return self._number

    def _end(self, number, words, at_us=None):
        with self._lock:
            self._write(f"E {number} {at_us or _now_us()} {words}")

    def _write(self, line):
        self._file.write(line + "\n")
        self._file.flush()


class ClientHistory(History):
    """One client's reports of its holds. Times are in seconds of the monotonic clock."""

    def holds(self, ask, answer, asked_at, answered_at):
        """The client says that it held what it had asked for, at some time between these two.

        A proxy knows which answer was the first, so this is noted as a repeated one.
        """
        permits = [
            {"semaphore": name, "count": count, "fence": answer["fences"][name], "slots": answer["slots"][name]}
            for name, count in ask["permits"].items()
        ]
        number = self._begin(_acquire(answer["external_id"], ask | {"permits": permits}), _us(asked_at))
        self._end(number, _answer("A", 200, {"permits": permits}), _us(answered_at))

    def releases(self, id):
        """The client is told to release. It is ended by ``released``, if the client says that it did."""
        return self._begin(f"L {id}")

    def released(self, number):
        self._end(number, "E 0 released")


def _us(seconds):
    return int(seconds * 1_000_000)


def _now_us():
    return time.monotonic_ns() // 1000


def _call(line, body):
    method, _, target = line.partition(" ")
    of, *rest = urlsplit(target).path.removeprefix("/v1/").split("/")
    if of != "requests" or not rest or method == "GET":
        return None
    id, asked = unquote(rest[0]), json.loads(body or b"null") or {}
    if method == "POST":
        return f"R {id} {_ttl(asked)}"
    if method == "DELETE":
        return f"{'F' if 'force=true' in target else 'L'} {id}"
    return _acquire(id, asked)


def _acquire(id, asked):
    permits = " ".join(f"{it['semaphore']}:{it['count']}" for it in asked["permits"])
    return f"A {id} {_ttl(asked)} {asked.get('owner') or '-'} {int(asked.get('wait_ms', 0) > 0)} {permits}"


def _ttl(asked):
    return asked["ttl_ms"] * 1000 if asked.get("ttl_ms") else "-"


def _answer(kind, status, body):
    if status in (200, 201) and kind == "A":
        permits = " ".join(_held(it) for it in body["permits"])
        return f"G {int(status == 201)} {permits}"
    if status == 200:
        return "R" if kind == "R" else f"E {int(body['released'])} {body['end_reason']}"
    code = body.get("code") if isinstance(body, dict) else None
    if code == "exhausted":
        return f"N exhausted {' '.join(body.get('semaphores', []))}"
    if code == "request_ended":
        return f"N ended {body['end_reason']}"
    if code in REFUSALS:
        return f"N {REFUSALS[code]}"
    # A server or a store that does not answer says nothing of what was done.
    return "U" if status >= 500 else f"N other {code}"


def _held(permit):
    return f"{permit['semaphore']}:{permit['count']}:{permit['fence']}:{_slots(permit['slots'])}"


def _slots(slots):
    """As the rows have them: hexadecimal digits, of which the first stands for the slots 0 to 3."""
    return f"{sum(1 << slot for slot in slots):x}"[::-1] if slots else "-"
