"""The demo's processes: real servers with a courier site, and a worker. Nothing is left behind."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from service.config.load import load
from service.config.schema import Config
from service.console.arguments import UsageError
from service.console.demo.script import COURIERS, HOOK, USER, service, settings
from service.console.settings import HOME
from service.operator import users
from service.operator.audit import Operator
from service.operator.connections import collections_of
from service.operator.service_wishes import new_sealing_key
from service.operator.services import Services
from tracking.request import MAIN

STOP_SECONDS = 20.0
WORDS_KEPT = 3

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks this machine itself, whatever proxy the environment names."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where everything is; as `python -m devstack --json` tells it. `disk`: a folder on one.

    `sealing`: the key that encrypts the secrets of services.
    """

    servers: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, str]
    disk: str = ""
    sealing: str = field(default_factory=new_sealing_key)

    @property
    def site(self) -> str:
        """The root of the courier site."""
        return str(self.servers["site"]["url"])

    @property
    def settings(self) -> dict[str, str]:
        """What the worker is started with, as variables."""
        return {**self.environment, **settings(self.site, self.sealing)}

    def config(self) -> Config:
        """Read these settings."""
        return load(os.devnull, self.settings, HOME).config

    def make_service(self) -> str:
        """Make the service that hears of a courier's parcels; gives its secret."""
        config = self.config()
        with collections_of(config) as stores:
            services = Services(config, stores)
            return str(services.make(Operator(), MAIN, HOOK, service(self.site)).secret)

    def make_user(self) -> str:
        """Make the owner of `main` who looks at the pages; gives the password."""
        password = secrets.token_urlsafe(9)
        owner = users.new_user(USER, MAIN, users.Role.OWNER)
        with collections_of(self.config()) as stores:
            users.add_user(stores, Operator(), owner, password)
        return password

    def behave(self) -> None:
        """Give every courier its character."""
        for courier in COURIERS:
            self._ask("POST", f"/_control/{courier.slug}", dict(courier.behaviour))

    def judged(self) -> dict[str, dict[str, Any]]:
        """What the courier site saw, by slug, on its own clock."""
        judged: dict[str, dict[str, Any]] = self._ask("GET", "/_calls/summary")
        return judged

    def calls_for(self, slug: str, number: str) -> int:
        """How often the courier was asked about one number."""
        entries = self._ask("GET", f"/_calls?slug={slug}")
        return sum(entry["kind"] == "call" and entry["number"] == number for entry in entries)

    def webhooks(self) -> list[dict[str, Any]]:
        """What arrived at the service's receiver, oldest first."""
        arrived: list[dict[str, Any]] = self._ask("GET", f"/_calls?slug={HOOK}")
        return arrived

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.site + path, data, method=method)  # noqa: S310 - ours
        with _DIRECT.open(request, timeout=10) as answer:
            return json.load(answer)


@contextmanager
def open_stage() -> Iterator[Stage]:
    """Run servers and site for the length of a `with` block. Raises UsageError when one is missing.

    They end when their standard input does, so they also end when this process is killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "devstack", "--json", "--until-eof"],
        cwd=HOME,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        first = process.stdout.readline() if process.stdout else b""
        if not first:
            why = process.stderr.read().decode() if process.stderr else ""
            raise UsageError(f"the demo's servers did not start: {why.strip()}")
        found = json.loads(first)
        yield Stage(found, found.pop("environment"), found.pop("disk"))
    finally:
        with suppress(BrokenPipeError):
            process.communicate(timeout=STOP_SECONDS)


@dataclass(slots=True)
class RunningWorker:
    """`worker.py run` with its worker processes; `last_words` are its last lines."""

    process: subprocess.Popen[bytes]
    pids: list[int] = field(default_factory=list)
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=WORDS_KEPT))
    listener: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        """Read the log to its end."""
        with self.process.stdout or nullcontext(()) as log:
            for line in log:
                self.last_words.append(line.decode(errors="replace").strip())
                with suppress(json.JSONDecodeError):
                    entry = json.loads(line)
                    # The process that archives has a name; workers have numbers.
                    if entry.get("event") == "process started" and entry["process"] != "archiver":
                        self.pids.append(int(entry["pid"]))

    def check(self) -> None:
        """Raise UsageError when it ended by itself, with its last words."""
        code = self.process.poll()
        if code is not None:
            self.listener.join(STOP_SECONDS)
            words = "\n".join(["", *self.last_words])
            raise UsageError(f"the demo's process ended by itself, with exit code {code}:{words}")

    def kill_one(self) -> int:
        """Kill a worker process the hard way; returns its pid."""
        victim = self.pids[-1]
        os.kill(victim, signal.SIGKILL)
        return victim

    def stop(self) -> int:
        """Ask for a stop in good order; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stop_at_once(self) -> None:
        """End it without waiting for its calls; nothing happens when it has ended."""
        if self.process.poll() is None:
            # Two different signals: of two equal ones the second may get lost in the first.
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGINT)
            self.process.wait(STOP_SECONDS)


@dataclass(frozen=True, slots=True)
class Door:
    """`worker.py api`, and where it listens; the pages are there, too."""

    process: RunningWorker
    url: str

    def post(self, requests: Sequence[Mapping[str, str]]) -> int:
        """Post requests at once; tells how many were taken and are on a beanstalkd."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(requests).encode()
        request = urllib.request.Request(f"{self.url}/v1/requests", body, headers)  # noqa: S310 - ours
        with _DIRECT.open(request, timeout=10) as answer:
            taken = json.load(answer)["requests"]
        return sum(not each["spooled"] for each in taken)

    def wait_until_open(self) -> None:
        """Return once it serves. Raises UsageError when it ended by itself, or does not begin."""
        deadline = time.monotonic() + STOP_SECONDS
        while True:
            self.process.check()
            try:
                _DIRECT.open(f"{self.url}/livez", timeout=5).close()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise UsageError(f"the demo's door does not open: {error}") from error
                time.sleep(0.05)
            else:
                return


@contextmanager
def start_door(stage: Stage) -> Iterator[Door]:
    """Run a door for the length of a `with` block; it ends like a worker."""
    listen = f"127.0.0.1:{_free_port()}"
    variables = {
        "TRACKER_API__LISTEN": listen,
        "TRACKER_INGEST__SPOOL": f"{stage.disk}/spool.sqlite",
        "TRACKER_INGEST__KEYS": f"{stage.disk}/keys.json",
    }
    with _started("api", stage.settings | variables) as process:
        door = Door(process, f"http://{listen}")
        door.wait_until_open()
        yield door


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def start_worker(stage: Stage) -> Iterator[RunningWorker]:
    """Run a worker with its default settings for the length of a `with` block.

    It ends when this process does, killed or not.
    """
    with _started("run", stage.settings) as worker:
        yield worker


@contextmanager
def _started(verb: str, variables: Mapping[str, str]) -> Iterator[RunningWorker]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TRACKER_")}
    command = [sys.executable, str(HOME / "worker.py"), "--config", os.devnull]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, verb, "--end-with", str(os.getpid())],
        cwd=HOME,
        # Another worker of this machine may serve its metrics at that port.
        env={**ours, "TRACKER_METRICS__LISTEN": "", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    worker = RunningWorker(process)
    try:
        yield worker
    finally:
        worker.stop_at_once()
        worker.listener.join(STOP_SECONDS)
