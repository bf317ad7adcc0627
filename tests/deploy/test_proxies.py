"""The proxies of docs/http.md stand before `api` and `ingest` as they are written there.

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
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import NamedTuple

import pytest

from devstack.nursery import Nursery
from devstack.servers import Server, free_port

ROOT = Path(__file__).parents[2]
NAME = "track.example.com"
SOON = 20.0
REQUEST = {"slug": "usps", "number": "9405903699300184125060"}


class Ports(NamedTuple):
    proxy: int
    door: int
    api: int


def example(kind: str) -> str:
    [block] = re.findall(rf"```{kind}\n(.+?)```", (ROOT / "docs/http.md").read_text(), re.DOTALL)
    return str(block)


def placed(text: str, *changes: tuple[str, str]) -> str:
    for written, here in changes:
        assert written in text, f"the example has no {written}"
        text = text.replace(written, here)
    return text


def nginx(ports: Ports, disk: Path) -> list[str]:
    """Write its configuration, with paths and ports of this test; gives how it begins."""
    folders = "\n".join(
        f"{each}_temp_path {disk}/{each};"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    block = placed(
        example("nginx"),
        ("127.0.0.1:8081", f"127.0.0.1:{ports.door}"),
        ("127.0.0.1:8080", f"127.0.0.1:{ports.api}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{ports.proxy} ssl"),
        (f"/etc/ssl/{NAME}.pem", f"{disk}/cert.pem"),
        (f"/etc/ssl/{NAME}.key", f"{disk}/key.pem"),
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
        "XDG_DATA_HOME": str(disk),
        "XDG_CONFIG_HOME": str(disk),
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
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME}"
    made += f" -addext subjectAltName=DNS:{NAME} -keyout {disk}/key.pem -out {disk}/cert.pem"
    subprocess.run(made.split(), check=True, capture_output=True)
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

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(NAME, port)
        self._trusted = ssl.create_default_context(cafile=str(folder / "cert.pem"))

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.port), SOON)
        self.sock = self._trusted.wrap_socket(plain, server_hostname=NAME)


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
