"""The courier site, seen by the process that started it."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from devstack.errors import ServerFailed, StackError
from devstack.folder import private_folder
from devstack.judge import Call
from devstack.kinds import HOST
from devstack.nursery import Nursery
from devstack.process import Process
from devstack.servers import READY_PATIENCE, STEP, free_port
from devstack.site.shapes.reply import Kind

REPOSITORY = Path(__file__).resolve().parents[2]
ANSWER_PATIENCE = 30.0


class CourierSite:
    """A running courier site in a process of its own, so that its clock is not the worker's.

    `url` is the root; a slug's `base_url` is `url + "/feed"` for the json_feed, or `url + "/usps"`
    and so on for the couriers' own shapes (`devstack.site.found`).
    """

    def __init__(self, port: int, process: Process) -> None:
        """Stand for the site at `port`; `start` makes one."""
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.process = process

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[CourierSite]:
        """Run a site for the length of a `with` block. Raises ServerFailed."""
        with ExitStack() as closing:
            folder = closing.enter_context(private_folder())
            nursery = closing.enter_context(Nursery())
            port = free_port()
            command = [sys.executable, "-m", "devstack.site", "--port", str(port)]
            environment = {"PYTHONPATH": str(REPOSITORY)}
            process = Process(nursery, command, folder / "site.log", environment)
            closing.callback(process.kill)  # it holds nothing worth an orderly stop
            site = cls(port, process)
            process.spawn()
            site.wait_ready()
            yield site

    def wait_ready(self) -> None:
        """Return when the site answers. Raises ServerFailed with the end of its log."""
        deadline = time.monotonic() + READY_PATIENCE
        while True:
            try:
                self._ask("GET", "/_calls/summary")
            except OSError as error:
                if self.process.pid is None or time.monotonic() > deadline:
                    what = "did not come up"
                    raise ServerFailed("the courier site", what, self.process.log) from error
                time.sleep(STEP)
            else:
                return

    def behave(self, slug: str, **behaviour: object) -> None:
        """Set how a courier behaves: the fields of `devstack.site.behaviour.Behaviour`.

        What is not given goes back to normal. Raises StackError for what is no behaviour.
        """
        self._ask("POST", f"/_control/{slug}", behaviour)

    def behaviour(self, slug: str) -> dict[str, Any]:
        """Read back how a courier behaves."""
        found: dict[str, Any] = self._ask("GET", f"/_control/{slug}")
        return found

    def entries(self, slug: str | None = None) -> list[dict[str, Any]]:
        """Every request since the last reset, oldest first: a Call's fields, `kind`, `fault`.

        Those to one receiver of webhooks come with `headers` and `body`.
        """
        asked = f"?slug={slug}" if slug else ""
        found: list[dict[str, Any]] = self._ask("GET", f"/_calls{asked}")
        return found

    def calls(self, slug: str | None = None) -> list[Call]:
        """Only the calls that count against the limits, for `devstack.judge`."""
        return [call_of(entry) for entry in self.entries(slug) if entry["kind"] == Kind.CALL]

    def summary(self, per_second: int = 2) -> dict[str, dict[str, Any]]:
        """Give the judge's view by slug; `rate_share` refers to `per_second`."""
        found: dict[str, dict[str, Any]]
        found = self._ask("GET", f"/_calls/summary?per_second={per_second}")
        return found

    def reset(self) -> None:
        """Forget all requests and let every courier behave."""
        self._ask("POST", "/_reset")

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_PATIENCE)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            found = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise StackError(f"the courier site refused {method} {path}: {found['error']}")
        return found


def call_of(entry: Mapping[str, Any]) -> Call:
    """Read a call out of one of the `entries`."""
    told = {name: entry[name] for name in Call.__dataclass_fields__}
    return Call(**told | {"riders": tuple(entry["riders"])})
