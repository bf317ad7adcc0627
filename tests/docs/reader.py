"""A reader who types every block of commands of a page, in a shell with an empty environment.

The shell stands in a folder like a clone's; what differs from it are ports, and what pages shorten
(`9f86…`) or cannot know (the beginning of a key): `KNOWN` finds that in what was printed before.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from devstack.servers import free_port

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/http.md", "examples/README.md")
MARK = re.compile(r"<!-- run by (tests/\S+|nobody: .+) -->")
STARTS_WITHIN = 30.0
STREAM_SECONDS = "1"
"""How long a stream is read that does not end."""

KNOWN = {
    "9f86…": r'"url":"[^"]+/start/(\w+)"',
    "6923…": r'"id":"(\w+)","url":"[^"]+/start/',
    "q3fT0mZk8yV1…": r"(?m)^id: (\S+)",
    "tk_0123456789ab": r"\b(tk_\w{12})",
}

FILES = {
    "requests.ndjson": '{"slug": "usps", "number": "9405903699300184125060"}\n{"number": "A"}\n',
    "orders.csv": "number,slug,id\n9405903699300184125060,usps,order-1\n",
    "body.json": "{}",
    "door.log": '{"spooled":{"type":"requests_flow","payload":{"slug":"usps","number":"94001"}}}\n',
}
"""What the pages send."""

CURL = f"""
status=$(mktemp); within=60; case " $* " in *" -sN "*) within={STREAM_SECONDS};; esac
/usr/bin/curl -w '%{{stderr}}%{{http_code}}' --max-time $within "$@" 2>"$status"; code=$?
printf '%s\\n' "$(tail -c 3 "$status")" >>"$STATUSES"; rm "$status"
[ "$code" = 0 ] || [ "$code:$within" = 28:{STREAM_SECONDS} ]
"""
"""curl, which notes the status of each answer."""


class Block(NamedTuple):
    """A block of a page; `mark` says who runs it, "" where the walk does."""

    mark: str
    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Each block, with the mark above it."""
    lines = ["", *(ROOT / page).read_text("utf-8").splitlines()]
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            found = MARK.fullmatch(lines[at - 1])
            yield Block(found[1] if found else "", lines[at][3:], "\n".join(lines[at + 1 : end]))
            at = end
        at += 1


def commands(block: str) -> Iterator[tuple[str, set[str]]]:
    """Each command of a block, and the statuses that the comments behind it name."""
    typed, told = "", ""
    for line in [*block.splitlines(), "end"]:
        if typed and _is_whole(typed):
            if line.startswith("#"):
                told += line
                continue
            yield typed, set(re.findall(r"(?:# |; |… )(\d{3})\b", f"{typed} {told}"))
            typed, told = "", ""
        if line.strip() and not line.startswith("#"):
            typed += f"{line}\n"


def _is_whole(typed: str) -> bool:
    try:
        shlex.split(typed, comments=True)
    except ValueError:
        return False
    return not typed.endswith("\\\n")


class Shell:
    """bash, where a reader types."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], ports: Mapping[str, str]
    ) -> None:
        """Open it."""
        self._ports = ports
        self._printed = ""
        self._statuses = folder / "statuses"
        self._statuses.touch()
        self._bash = subprocess.Popen(
            ["/bin/bash"],
            cwd=folder,
            env={**environment, "STATUSES": f"{self._statuses}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str) -> tuple[int, str]:
        """Type a command; gives its exit code and what it printed."""
        for shown, pattern in KNOWN.items():
            if shown in command:
                command = command.replace(shown, re.findall(pattern, self._printed)[-1])
        for usual, ours in self._ports.items():
            command = command.replace(usual, ours)
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(f"{command}\nprintf '\\nended %s\\n' $?\n")
        self._bash.stdin.flush()
        printed = ""
        for line in self._bash.stdout:
            if line.startswith("ended "):
                self._printed += printed
                return int(line.split()[1]), printed
            printed += line
        raise AssertionError(f"the shell ended: {printed}")

    def statuses(self) -> list[str]:
        """Take the statuses of what curl was answered since the last time."""
        found = self._statuses.read_text().split()
        self._statuses.write_text("")
        return found

    def close(self) -> None:
        """End it."""
        with self._bash as ending:  # closes its files
            ending.terminate()


@contextmanager
def clone(folder: Path, settings: Mapping[str, str]) -> Iterator[Shell]:
    """Open a shell in a folder like a clone's, with a worker and both doors running."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for name in ("examples", "docs", "config.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    python = f"exec {shlex.quote(sys.executable)}"
    _script(folder / ".venv/bin/tracker", f'{python} {shlex.quote(f"{ROOT}/worker.py")} "$@"')
    _script(folder / "bin/python", f'{python} "$@"')
    _script(folder / "bin/curl", CURL)
    ports = {usual: f"{free_port()}" for usual in ("8080", "8081")}
    environment = {
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        "HOME": f"{folder}",
        "TRACKER_API__LISTEN": f"127.0.0.1:{ports['8080']}",
        "TRACKER_INGEST__LISTEN": f"127.0.0.1:{ports['8081']}",
        "TRACKER_INGEST__SPOOL": f"{folder}/spool.sqlite",
        "TRACKER_INGEST__KEYS": f"{folder}/keys.json",
        "TRACKER_METRICS__LISTEN": "",
        **settings,
    }
    with ExitStack() as closing:
        for verb in ("run", "api", "ingest"):
            closing.callback(_stop, _start(folder, verb, environment))
        for port in ports.values():
            _await(port)
        shell = Shell(folder, environment, ports)
        closing.callback(shell.close)
        yield shell


def settings_of(addresses: Mapping[str, str], site: str) -> dict[str, str]:
    """The settings of a clone that asks the courier site."""
    return {
        **addresses,
        "TRACKER_COURIERS__USPS__CLIENT_ID": "walk",
        "TRACKER_COURIERS__USPS__CLIENT_SECRET": "walk",
        "TRACKER_COURIERS__USPS__BASE_URL": f"{site}/usps",
        "TRACKER_COURIERS__USPS__TOKEN_URL": f"{site}/usps/oauth2/v3/token",
        "BEANSTALKD": json.loads(addresses["TRACKER_BEANSTALKD__SERVERS"])[0],
        "MONGODB_URI": addresses["TRACKER_MONGODB__URI"],
        "MONGODB_DATABASE": addresses["TRACKER_MONGODB__DATABASE"],
        "REDIS_URL": addresses["TRACKER_REDIS__URL"],
    }


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def _start(folder: Path, verb: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (folder / f"{verb}.log").open("wb") as log:
        return subprocess.Popen(
            [folder / ".venv/bin/tracker", verb, "--end-with", f"{os.getpid()}"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(STARTS_WITHIN)


def _await(port: str) -> None:
    """Return once a door serves."""
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
        except OSError:
            assert time.monotonic() < deadline, f"nothing serves at {port}"
            time.sleep(0.05)
        else:
            return
