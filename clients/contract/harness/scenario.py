"""Carries out the steps of one scenario. ../README.md says what each of them means."""

import shutil
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from .clock import Clock
from .proxy import Proxy
from .runner import Runner
from .server import Server

ANSWER_S = 20.0
POLL_S = 0.02
# Machines that run tests are busy: what must happen within a time has that much more.
SLACK = 2


class Scenario:
    def __init__(self, scenario, language, binary):
        self._steps = scenario["steps"]
        self._settings = scenario.get("clients", {})
        self._server_settings = scenario.get("server", {})
        self._language = language
        self._binary = binary
        self._folder = Path(tempfile.mkdtemp(prefix="lockhouse-contract."))
        # Of the processes whose clocks the steps set; that of the server has no name.
        named = {step.get("of") for step in self._steps if "clock" in step}
        self._clocks = {
            name: Clock(self._folder / f"{name or 'server'}.clock", is_cached=name is not None) for name in named
        }
        self._runners = {}
        self._proxies = {}
        self._begun = {}
        self._results = {}

    def run(self):
        self._server = Server(
            self._binary,
            self._folder,
            clock=self._clocks.get(None),
            asks_for_tokens=self._server_settings.get("tokens", False),
            certificates=self._certificates() if self._server_settings.get("tls") else None,
        )
        try:
            for number, step in enumerate(self._steps, 1):
                try:
                    self._step(step)
                except AssertionError as error:
                    raise AssertionError(f"step {number} {step}: {error}") from None
            for name, proxy in self._proxies.items():
                unused = proxy.unused_faults()
                assert not unused, f"faults at {name} that no call met: {unused}"
        finally:
            for runner in self._runners.values():
                runner.close()
            for proxy in self._proxies.values():
                proxy.close()
            self._server.go_on()
            self._server.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _step(self, step):
        step = dict(step)
        verbs = [verb for verb in step if hasattr(self, f"_do_{verb}")]
        assert len(verbs) == 1, f"a step has one verb, of those in the README; this has {verbs}"
        getattr(self, f"_do_{verbs[0]}")(step)

    # Clients

    def _do_client(self, step):
        name, op = step["client"], step["do"]
        arguments = {key: value for key, value in step.items() if key not in RESERVED}
        runner = self._runner(name)
        id = runner.begin(op, self._resolved(arguments))
        key = step.get("as", id)
        if step.get("begin"):
            self._begun[key] = (runner, id)
            return
        answer = runner.answer(id, within_s(step))
        self._check(answer, step.get("is", {}), runner)
        self._results[key] = answer.get("ok")

    def _do_ended(self, step):
        runner, id = self._begun[step["ended"]]
        answer = runner.answer(id, within_s(step))
        self._check(answer, step.get("is", {}), runner)
        self._results[step["ended"]] = answer.get("ok")

    def _do_waits_still(self, step):
        runner, id = self._begun[step["waits_still"]]
        assert not [it for _, it in list(runner.seen) if it.get("id") == id], "it has ended"

    def _do_cancel(self, step):
        runner, id = self._begun[step["cancel"]]
        assert "ok" in runner.answer(runner.begin("cancel", {"target": id}), ANSWER_S)

    def _do_lost(self, step):
        self._event(step, "lost", step["lost"])

    def _do_entered(self, step):
        self._event(step, "entered", step["entered"])

    def _event(self, step, kind, permit):
        runner = self._runner(step["of"])
        deadline = time.monotonic() + within_s(step)
        while True:
            for _, message in list(runner.seen):
                if message.get("event") == kind and message["permit"] == permit:
                    self._match(message, step.get("is", {}), kind)
                    return
            assert time.monotonic() < deadline, f"{kind} of {permit} was not seen; {runner.said()}"
            time.sleep(POLL_S)

    def _do_order(self, step):
        """The events must have come in this order: ``lost p1`` and ``ended p2``."""
        times = [self._time_of(*what.split()) for what in step["order"]]
        assert times == sorted(times), f"they came at {times}"

    def _time_of(self, kind, name):
        if kind == "ended":
            runner, id = self._begun[name]
            return next(at for at, it in runner.seen if it.get("id") == id)
        messages = [entry for runner in self._runners.values() for entry in list(runner.seen)]
        return next(at for at, it in messages if it.get("event") == kind and it["permit"] == name)

    def _do_process(self, step):
        runner = self._runner(step["process"])
        if step["do"] == "exit":
            runner.begin("exit", {})
            assert runner.wait(ANSWER_S) == 0, runner.said()
        else:
            runner.signal(step["do"])

    # The link and the server

    def _do_fault(self, step):
        proxy = self._proxy(step["fault"])
        proxy.add_fault({key: value for key, value in step.items() if key != "fault"})

    def _do_link(self, step):
        self._proxy(step["link"]).set_link(step["is"])

    def _do_server(self, step):
        {
            "stop": self._server.stop,
            "continue": self._server.go_on,
            "kill": self._server.kill,
            "start": self._start_server,
        }[step["server"]]()

    def _start_server(self):
        self._server.start()
        for proxy in self._proxies.values():
            proxy.upstream = self._server.address

    def _do_clock(self, step):
        self._clocks[step.get("of")].set(step["clock"])

    def _do_token(self, step):
        """Makes a token; ``$NAME.secret`` is its secret."""
        name = step["token"]
        status, answer = self._server.call("POST", "/v1/tokens", {"name": name, "grants": step["grants"]})
        assert status == 201, answer
        self._results[name] = answer

    def _do_revoke(self, step):
        status, answer = self._server.call("DELETE", f"/v1/tokens/{step['revoke']}")
        assert status == 204, answer

    def _do_sleep_ms(self, step):
        time.sleep(step["sleep_ms"] / 1000)

    # Calls and checks on the server

    def _do_define(self, step):
        body = {key: value for key, value in step.items() if key not in ("define", "times")}
        times = step.get("times")
        for name in [step["define"]] if times is None else [f"{step['define']}{number}" for number in range(times)]:
            status, answer = self._server.call("PUT", f"/v1/semaphores/{quote(name, safe='')}", body)
            assert status in (200, 201), answer

    def _do_call(self, step):
        """Any call, straight to the server: ``["PUT", "/v1/…", {…}]``."""
        status, answer = self._server.call(*step["call"])
        self._match({"status": status, "body": answer}, step.get("is", {}), "answer")

    def _do_sees(self, step):
        """Polls a call until its answer matches."""
        deadline = time.monotonic() + (within_s(step) if "within_ms" in step else 0)
        while True:
            status, answer = self._server.call("GET", step["sees"])
            try:
                self._match({"status": status, "body": answer}, step["is"], "answer")
                return
            except AssertionError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(POLL_S)

    def _do_sent(self, step):
        """How many calls a client sent, with which headers, and whether each began before the last one's answer."""
        deadline = time.monotonic() + (within_s(step) if "within_ms" in step else 0)
        while True:
            calls = [it for it in list(self._proxy(step["sent"]).calls) if it["line"].startswith(step["on"])]
            if len(calls) >= step.get("times", 1) or time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
        if "times" in step:
            assert len(calls) == step["times"], f"there were {[it['line'] for it in calls]}"
        assert calls, "there was none"
        if step.get("overlap"):
            for call, following in zip(calls, calls[1:]):
                answered_at = call["answered_at"]
                assert answered_at is None or following["at"] < answered_at, "there was a gap between two calls"
        for name, value in step.get("headers", {}).items():
            told = {call["headers"].get(name) for call in calls}
            assert told == {value}, f"{name} was {told}"

    # Below

    def _runner(self, name):
        if name not in self._runners:
            settings = self._resolved(self._settings.get(name, {}))
            connect = {key: value for key, value in settings.items() if key in ("timeout_ms", "token")}
            environment = dict(settings.get("environment", {}))
            if name in self._clocks:
                environment |= self._clocks[name].environment
            certificate = str(self._certificates() / "ca.pem") if "ca_file" in settings else None
            if settings.get("ca_file") == "environment":
                environment["LOCKHOUSE_CA_FILE"] = certificate
            elif certificate:
                connect["ca_file"] = certificate
            url = self._server.url if settings.get("direct") else self._proxy(name).url
            runner = self._runners[name] = Runner(self._language, self._folder, name, environment)
            answer = runner.answer(runner.begin("connect", {"url": url, **connect}), 60)
            assert "ok" in answer, answer
            # The first call of a language loads what it needs for it, which takes long on a busy machine.
            runner.answer(runner.begin("find", {"external_id": "nothing"}), 60)
        return self._runners[name]

    def _proxy(self, name):
        if name not in self._proxies:
            tls = None
            if self._settings.get(name, {}).get("tls"):
                tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                folder = self._certificates()
                tls.load_cert_chain(folder / "server.pem", folder / "server.key")
            self._proxies[name] = Proxy(self._server.address, tls)
        return self._proxies[name]

    def _certificates(self):
        """A private authority, and what it signed for 127.0.0.1."""
        folder = self._folder / "tls"
        if not folder.exists():
            folder.mkdir()
            (folder / "names.conf").write_text("subjectAltName=IP:127.0.0.1")
            for command in CERTIFICATES:
                subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
        return folder

    def _check(self, answer, expected, runner):
        if "error" in answer and "error" not in expected:
            raise AssertionError(f"it failed: {answer['error']}; {runner.said()}")
        if "error" in expected:
            assert "error" in answer, f"it should have failed, and answered {answer}"
            self._match({"error": answer["error"]["code"]}, {"error": expected["error"]}, "error")
            return
        self._match(answer["ok"], expected, "answer")

    def _match(self, found, expected, where):
        """Whether ``found`` has what ``expected`` names; members that it does not name are free."""
        if isinstance(expected, dict) and "above" in expected:
            limit = self._resolved(expected["above"])
            assert found > limit, f"{where} is {found}, not above {limit}"
        elif isinstance(expected, dict) and "length" in expected:
            assert len(found) == expected["length"], f"{where} has {len(found)}"
        elif isinstance(expected, dict):
            assert isinstance(found, dict), f"{where} is {found}"
            for key, value in expected.items():
                self._match(found.get(key), value, f"{where}.{key}")
        elif isinstance(expected, list):
            assert isinstance(found, list) and len(found) == len(expected), f"{where} is {found}"
            for index, value in enumerate(expected):
                self._match(found[index], value, f"{where}[{index}]")
        else:
            value = self._resolved(expected)
            assert found == value, f"{where} is {found!r}, not {value!r}"

    def _resolved(self, value):
        """``$p1.fences.s`` is what the step called ``p1`` answered there."""
        if isinstance(value, dict):
            return {key: self._resolved(it) for key, it in value.items()}
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        name, *path = value[1:].split(".")
        found = self._results[name]
        for key in path:
            found = found[key]
        return found


def within_s(step):
    return step["within_ms"] * SLACK / 1000 if "within_ms" in step else ANSWER_S


RESERVED = ("client", "do", "begin", "within_ms", "is")
CERTIFICATES = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority"
    " -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.pem",
    "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server"
    " -keyout server.key -out server.csr",
    "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 2 -out server.pem -extfile names.conf",
)
