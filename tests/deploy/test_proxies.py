"""The proxies of docs/http.md and docs/relay.md stand before the doors as they are written there.

They run where `nginx` or `caddy` is on PATH: both are packages of the distribution.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from devstack.nursery import Nursery
from devstack.raw_receiver import raw_receiver
from devstack.servers import Server, free_port

ROOT = Path(__file__).parents[2]
NAME = "track.example.com"
SOON = 20.0
REQUEST = {"slug": "usps", "number": "9405903699300184125060"}


class Ports(NamedTuple):
    proxy: int
    door: int
    api: int


def example(kind: str, page: str = "http") -> str:
    text = (ROOT / f"docs/{page}.md").read_text()
    [block] = re.findall(rf"```{kind}\n(.+?)```", text, re.DOTALL)
    return str(block)


def placed(text: str, *changes: tuple[str, str]) -> str:
    for written, here in changes:
        assert written in text, f"the example has no {written}"
        text = text.replace(written, here)
    return text


def nginx(ports: Ports, disk: Path) -> list[str]:
    """Write its configuration, with paths and ports of this test; gives how it begins."""
    block = placed(
        example("nginx"),
        ("127.0.0.1:8081", f"127.0.0.1:{ports.door}"),
        ("127.0.0.1:8080", f"127.0.0.1:{ports.api}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{ports.proxy} ssl"),
        (f"/etc/ssl/{NAME}.pem", f"{disk}/cert.pem"),
        (f"/etc/ssl/{NAME}.key", f"{disk}/key.pem"),
    )
    return begin_nginx(block, disk)


def begin_nginx(block: str, disk: Path) -> list[str]:
    folders = "\n".join(
        f"{each}_temp_path {disk}/{each};"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    about = f"daemon off; pid {disk}/pid; error_log stderr; events {{}}"
    file = disk / "nginx.conf"
    file.write_text(f"{about}\nhttp {{\naccess_log {disk}/access.log;\n{folders}\n{block}\n}}\n")
    return ["-p", str(disk), "-e", "stderr", "-c", str(file)]


def caddy(ports: Ports, disk: Path) -> list[str]:
    """Write its configuration, with a certificate and ports of this test; gives how it begins."""
    block = placed(
        example("caddy"),
        ("127.0.0.1:8081", f"127.0.0.1:{ports.door}"),
        ("127.0.0.1:8080", f"127.0.0.1:{ports.api}"),
        (f"{NAME} {{", f"https://{NAME}:{ports.proxy} {{\ntls {disk}/cert.pem {disk}/key.pem\n"),
        ("{\n    servers {", "{\n    admin off\n    auto_https disable_redirects\n    servers {"),
    )
    file = disk / "Caddyfile"
    file.write_text(block)
    return ["run", "--config", str(file), "--adapter", "caddyfile"]


def of_its_own(disk: Path) -> dict[str, str]:
    """Keep what Caddy writes out of the home of who runs the tests."""
    return dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME", "STEPPATH"), str(disk))


@pytest.fixture
def ports() -> Ports:
    return Ports(free_port(), free_port(), free_port())


@pytest.fixture
def stores(redis_url: str, mongo_uri: str, database: str) -> dict[str, str]:
    return {
        "TRACKER_REDIS__URL": redis_url,
        "TRACKER_MONGODB__URI": mongo_uri,
        "TRACKER_MONGODB__DATABASE": database,
    }


@pytest.fixture
def settings(
    stores: dict[str, str], beanstalkd: Server, disk: Path, ports: Ports
) -> dict[str, str]:
    return {
        **os.environ,
        **stores,
        "TRACKER_BEANSTALKD__SERVERS": json.dumps([beanstalkd.url]),
        "TRACKER_INGEST__SPOOL": str(disk / "spool.sqlite"),
        "TRACKER_INGEST__KEYS": str(disk / "keys.json"),
        "TRACKER_INGEST__LISTEN": f"127.0.0.1:{ports.door}",
        "TRACKER_API__LISTEN": f"127.0.0.1:{ports.api}",
        "TRACKER_HTTP__REQUIRE_KEY": "true",
        "TRACKER_HTTP__HOSTS": json.dumps([NAME]),
        "TRACKER_HTTP__PUBLIC_URL": f"https://{NAME}",
        **of_its_own(disk),
    }


@pytest.fixture
def key(settings: dict[str, str]) -> str:
    command = [sys.executable, "worker.py", "key", "add", "main", "--scope", "read,ingest"]
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(
    params=[
        pytest.param(each, marks=pytest.mark.skipif(not shutil.which(each.__name__), reason=why))
        for each, why in ((nginx, "nginx is not installed"), (caddy, "caddy is not installed"))
    ]
)
def proxy(
    request: pytest.FixtureRequest, settings: dict[str, str], ports: Ports, disk: Path, key: str
) -> Iterator[Path]:
    """All three processes; gives the folder with the certificate."""
    program = shutil.which(request.param.__name__)
    assert program
    certify(NAME, disk)
    worker = [sys.executable, str(ROOT / "worker.py")]
    with Nursery() as nursery:
        before = [program, *request.param(ports, disk)]
        started = [
            nursery.start(command, disk / "log", settings)
            for command in ([*worker, "ingest"], [*worker, "api"], before)
        ]
        try:
            until(lambda: listens(ports.proxy), disk / "log")
            until(lambda: knows(key, ports.door) and knows(key, ports.api), disk / "log")
            yield disk
        finally:
            for each in started:
                each.terminate()
            for each in started:
                each.wait()


def certify(name: str, disk: Path) -> None:
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME}"
    made += f" -addext subjectAltName=DNS:{name} -keyout {disk}/key.pem -out {disk}/cert.pem"
    subprocess.run(made.split(), check=True, capture_output=True)


def until(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def knows(key: str, port: int) -> bool:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/readyz", headers={"Host": NAME, "as-api-key": key}
    )
    try:
        with urllib.request.urlopen(asked, timeout=1.0) as told:  # noqa: S310 - of this machine
            return b"spooled" in told.read()
    except OSError:
        return False


class Through(HTTPSConnection):
    """A connection to the public name, which is this machine here."""

    def __init__(self, port: int, folder: Path, name: str = NAME) -> None:
        super().__init__(name, port)
        self._trusted = ssl.create_default_context(cafile=str(folder / "cert.pem"))

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port), SOON)
        self.sock = self._trusted.wrap_socket(plain, server_hostname=self.host)


def test_what_the_page_writes_before_the_doors_works(proxy: Path, ports: Ports, key: str) -> None:
    known, posted = {"as-api-key": key}, json.dumps(REQUEST | {"id": "a"})
    json_too = known | {"Content-Type": "application/json"}

    def ask(
        method: str, path: str, body: str | None = None, headers: dict[str, str] = json_too
    ) -> tuple[int, str]:
        with closing(Through(ports.proxy, proxy)) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    assert ask("POST", "/v1/requests", posted, {"Content-Type": "application/json"})[0] == 401
    assert ask("POST", "/v1/requests", posted)[0] == 202
    began = time.monotonic()
    assert ask("GET", "/v1/operations/b?wait=1")[0] == 404
    assert time.monotonic() - began >= 1
    with closing(Through(ports.proxy, proxy)) as connection:
        connection.request("GET", "/v1/events", headers=known)
        assert connection.getresponse().readline() == b"retry: 2000\n"
    status, linked = ask("POST", "/v1/links", json.dumps(REQUEST))
    address = json.loads(linked)["url"]
    assert (status, address[:32]) == (201, f"https://{NAME}/start/")
    assert ask("POST", address.removeprefix(f"https://{NAME}"), headers={})[0] == 201
    status, couriers = ask("GET", "/tracking/2026-07/couriers?slug=usps")
    assert (status, json.loads(couriers)["data"]["total"]) == (200, 1)
    assert ask("POST", "/v1/requests", " " * (1 << 20) + posted)[0] == 413
    served = [path for path in ("/", "/metrics", "/docs", "/v2") if ask("GET", path)[0] != 404]
    assert served == []


LABEL = "main-shop-ae3kq2mfyl5zr7wexd6bc.in.example.com"
HEADERS = (
    ("x-A", "1"),
    ("content-TYPE", "a/b"),
    ("Content-Type", "c/d"),
    ("X_Under", "caf\xe9"),
    ("!#$", "2"),
    ("X-a", "3"),
)
TARGET = "/caf\xc3\xa9//%2F?q=%2f&\xe2\x82\xac"


def relay_nginx(ports: Ports, disk: Path) -> list[str]:
    block = placed(
        example("nginx", "relay"),
        ("127.0.0.1:8081", f"127.0.0.1:{ports.door}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{ports.proxy} ssl"),
        ("/etc/ssl/in.example.com.pem", f"{disk}/cert.pem"),
        ("/etc/ssl/in.example.com.key", f"{disk}/key.pem"),
    )
    return begin_nginx(block, disk)


def relay_caddy(ports: Ports, disk: Path) -> list[str]:
    block = placed(
        re.sub(
            r"tls {[^}]+}[^}]+}", f"tls {disk}/cert.pem {disk}/key.pem", example("caddy", "relay")
        ),
        ("127.0.0.1:8081", f"127.0.0.1:{ports.door}"),
        ("*.in.example.com {", f"https://*.in.example.com:{ports.proxy} {{"),
    )
    file = disk / "Caddyfile"
    file.write_text(f"{{\nadmin off\nauto_https disable_redirects\n}}\n{block}")
    return ["run", "--config", str(file), "--adapter", "caddyfile"]


@pytest.mark.parametrize("program", ["nginx", "caddy"])
def test_what_the_page_of_relays_writes_before_the_door_passes_on_what_it_says(
    program: str, disk: Path
) -> None:
    if not (found := shutil.which(program)):
        pytest.skip(f"{program} is not installed")
    certify("*.in.example.com", disk)
    lines = [
        f"FOO {TARGET} HTTP/1.1",
        f"Host: {LABEL}",
        "Content-Length: 3",
        *(f"{n}: {v}" for n, v in HEADERS),
    ]
    with Nursery() as nursery, raw_receiver() as receiver:
        ports = Ports(free_port(), receiver.port, 0)
        begin = {"nginx": relay_nginx, "caddy": relay_caddy}[program](ports, disk)
        variables = os.environ | of_its_own(disk)
        started = nursery.start([found, *begin], disk / "log", variables)
        until(lambda: listens(ports.proxy), disk / "log")
        with closing(Through(ports.proxy, disk, LABEL)) as connection:
            connection.connect()
            connection.sock.sendall("\r\n".join([*lines, "", "a\x00b"]).encode("latin-1"))
            answered = connection.sock.recv(12)
        started.terminate()
        started.wait()

    [arrived] = receiver.arrived
    kept = [each for each in arrived.headers if not is_added(each[0])]
    assert (answered, arrived.method, arrived.body) == (b"HTTP/1.1 200", "FOO", b"a\x00b")
    assert arrived.value("Host") == LABEL
    if program == "nginx":
        assert (arrived.target, kept) == (TARGET, [*HEADERS])
    else:  # it writes heads of its own
        assert unquote(arrived.target, "latin-1") == unquote(TARGET, "latin-1")
        assert lowered(kept) == lowered(HEADERS)


def is_added(name: str) -> bool:
    return name.lower() in {"host", "connection", "content-length"} or name.lower().startswith(
        "x-forwarded-"
    )


def lowered(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted((name.lower(), value) for name, value in headers)
