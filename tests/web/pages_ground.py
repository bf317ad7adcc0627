"""Pages as people meet them without a script: at a real `worker.py api`, over plain HTTP.

A `Person` keeps cookies, and submits a form as a browser does: with what stands in it, and from
where it stands.
"""

from __future__ import annotations

import datetime as dt
import http.client
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urljoin, urlsplit

import lxml.html

from devstack.command import run_to_end
from devstack.nursery import Nursery
from devstack.process import Process
from devstack.servers import free_port
from service.config.load import load
from service.config.schema import Config
from service.operator.accounts import add_account
from service.operator.audit import Operator
from service.operator.connections import Collections, collections_of
from service.operator.sessions import open_session_of
from service.operator.users import Role, User, add_user, find_user
from tracking.errors import NotDone
from tracking.request import MAIN, Account

ROOT = Path(__file__).resolve().parents[2]
ACME = Account("acme")
BOOT_SECONDS = 30.0
BOUNDARY = "pages-boundary"


@dataclass(frozen=True)
class Shown:
    """An answer: a page, a fragment, a file."""

    path: str
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @cached_property
    def tree(self) -> Any:
        """Its elements (lxml); `tree.text_content()` are its words."""
        return lxml.html.document_fromstring(self.text, base_url=self.path)

    @property
    def words(self) -> str:
        """What a reader sees, with single blanks."""
        return " ".join(self.tree.body.text_content().split())

    @property
    def heading(self) -> str:
        return " ".join(self.tree.findtext(".//h1").split())

    def form(self, action: str) -> Any:
        """The form that posts to (or asks for) a path."""
        found = [each for each in self.tree.forms if self.leads_to(each.get("action")) == action]
        assert found, f"no form of {self.path} goes to {action}: {self.text}"
        return found[0]

    def leads_to(self, link: str | None) -> str:
        """The path to which a link of this page leads."""
        return urlsplit(urljoin(self.path, link or "")).path


class Person:
    """Somebody with a browser."""

    def __init__(self, url: str, session: str = "") -> None:
        self.url = url
        self.cookies = {"session": session} if session else {}

    def get(self, path: str, **headers: str) -> Shown:
        """Ask for a page; `If_None_Match="…"` is a header."""
        return self.ask("GET", path, None, headers)

    def open(self, path: str, **headers: str) -> Shown:
        """Ask for a page, and go where it leads, as browsers do."""
        return self._follow(self.get(path, **headers))

    def post(self, path: str, fields: Mapping[str, object], **headers: str) -> Shown:
        """Post these fields and no others; from our own origin unless the headers say another."""
        given = {"Origin": self.url, "Content-Type": "application/x-www-form-urlencoded"} | headers
        return self.ask("POST", path, urlencode(fields, doseq=True).encode(), given)

    def submit(self, page: Shown, action: str, **fields: object) -> Shown:
        """Submit the form of a page that goes to `action`; shows the page to which that leads.

        Fields are those of the form with these values; bytes are a file.
        """
        form = page.form(action)
        values = [(name, value) for name, value in form.form_values() if name not in fields]
        values += [(name, value) for name, value in fields.items() if value is not None]
        if form.method == "GET":
            return self.open(f"{action}?{urlencode(values, doseq=True)}")
        if form.get("enctype") != "multipart/form-data":
            return self._follow(self.post(action, dict(values)))
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        headers = {"Origin": self.url, "Content-Type": kind}
        return self._follow(self.ask("POST", action, _multipart(values), headers))

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Shown:
        """Ask once; `_` stands for `-` in the names of headers."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            given["Cookie"] = self._cookie
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            shown = Shown(path, answer.status, answer.headers, answer.read())
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie", []):
            for name, kept in SimpleCookie(line).items():
                self.cookies[name] = kept.value
        return shown

    def hear(self, path: str, seconds: float = 0.5) -> bytes:
        """Listen to a stream; what comes within so many seconds."""
        connection, heard = http.client.HTTPConnection(urlsplit(self.url).netloc), b""
        with closing(connection), suppress(TimeoutError):
            connection.request("GET", path, headers={"Cookie": self._cookie})
            answer = connection.getresponse()
            connection.sock.settimeout(seconds)
            while more := answer.read1():
                heard += more
        return heard

    @property
    def _cookie(self) -> str:
        return "; ".join(f"{name}={text}" for name, text in self.cookies.items())

    def _follow(self, shown: Shown) -> Shown:
        while shown.status in {302, 303}:
            shown = self.get(urljoin(shown.path, shown.headers["Location"]))
        return shown


def _multipart(values: list[tuple[str, Any]]) -> bytes:
    parts = []
    for name, value in values:
        file = '; filename="parcels.csv"\r\nContent-Type: text/csv'
        file = file if isinstance(value, bytes) else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        content = value if isinstance(value, bytes) else f"{value}".encode()
        parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


class Service:
    """A running `worker.py api` with its users: a person of each role, of `main` and of `acme`.

    `without_users`: its first page before there was one.
    """

    without_users: Shown

    def __init__(self, process: Process, settings: dict[str, str], stores: Collections) -> None:
        self.process = process
        self.settings = settings
        self.config: Config = load(None, settings, Path("/")).config
        self.stores = stores
        self.url = f"http://{self.config.api.listen}"

    def person(self, role: str = "owner", account: Account = MAIN) -> Person:
        """Somebody who has just logged in."""
        email = f"{role}@{account}.example"
        if find_user(self.stores, email) is None:
            user = User(email, account, Role(role), dt.datetime.now(dt.UTC))
            add_user(self.stores, Operator(), user)
        return Person(self.url, open_session_of(self.stores, email) or "")

    def stranger(self) -> Person:
        """Somebody who has not logged in."""
        return Person(self.url)

    def command(self, *words: str) -> str:
        """Run a verb of the command line with the same settings; what it prints."""
        command = [sys.executable, str(ROOT / "worker.py"), *words]
        done = run_to_end(command, {**os.environ, **self.settings})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def log(self) -> str:
        return self.process.log.read_text()

    def wait(self) -> Self:
        """Return once it serves."""
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                self.stranger().get("/livez")
            except OSError:
                assert time.monotonic() < deadline, self.log
                assert self.process.pid, self.log
                time.sleep(0.02)
            else:
                return self


@contextmanager
def serving_pages(folder: Path, settings: Mapping[str, str]) -> Iterator[Service]:
    """Run an `api` at these servers; `folder` is on a disk."""
    listen = f"127.0.0.1:{free_port()}"
    given = {
        "TRACKER_API__LISTEN": listen,
        "TRACKER_INGEST__SPOOL": str(folder / "spool.sqlite"),
        "TRACKER_INGEST__KEYS": str(folder / "keys.json"),
        "TRACKER_LOG__FORMAT": "json",
    } | dict(settings)
    command = [sys.executable, str(ROOT / "worker.py"), "api"]
    with Nursery() as nursery, collections_of(load(None, given, Path("/")).config) as stores:
        with suppress(NotDone):
            add_account(stores, ACME)
        process = Process(nursery, command, folder / "api.log", given)
        process.spawn()
        try:
            service = Service(process, given, stores).wait()
            service.without_users = service.stranger().get("/")
            service.person()
            yield service
        finally:
            process.kill()
