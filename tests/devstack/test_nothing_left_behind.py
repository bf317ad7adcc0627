"""However the starter ends, no server and no data outlive it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devstack.folder import private_folder

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE = 20.0

FAILING = """
import sys, json
from devstack.stack import Stack
with Stack.start() as stack:
    print(json.dumps({server.name: {"pid": server.pid} for server in stack.servers}), flush=True)
    sys.stdin.read()
    raise RuntimeError("as you wished")
"""

STRUCK = """
import faulthandler, os, signal, sys
from devstack.__main__ import _stop_signals
def strike(*_):
    os.kill(os.getpid(), signal.SIGTERM)
    return strike
def wait(stop):
    stop.get()
faulthandler.dump_traceback_later(10, exit=True)
stop = _stop_signals()
sys.settrace(strike)
wait(stop)
"""
"""Gets a signal at each line of Python that is run while it waits for one."""


@contextmanager
def starter(temporary: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Run a starter whose temporary folder is `temporary`; gives it and its servers' pids."""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            shown: dict[str, Any] = json.loads(process.stdout.readline())
            pids = [part["pid"] for part in shown.values() if "pid" in part]
            assert all(map(alive, pids))
            yield process, pids
        finally:
            process.kill()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # dead, and only waiting for this container's init to take note


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def none_alive(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(map(alive, pids))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_every_server_and_removes_the_data(
    tmp_path: Path, number: signal.Signals
) -> None:
    with starter(tmp_path, "-m", "devstack", "--json") as (process, pids):
        process.send_signal(number)

        assert process.wait(DEADLINE) == 0
        wait_until(none_alive(pids))
        assert list(tmp_path.iterdir()) == []


def test_a_signal_is_heard_that_comes_just_as_it_is_waited_for() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STRUCK], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_closed_standard_input_stops_every_server(tmp_path: Path) -> None:
    with starter(tmp_path, "-m", "devstack", "--json", "--until-eof") as (process, pids):
        assert process.stdin
        process.stdin.close()

        assert process.wait(DEADLINE) == 0
        wait_until(none_alive(pids))
        assert list(tmp_path.iterdir()) == []


def test_an_exception_stops_every_server_and_removes_the_data(tmp_path: Path) -> None:
    with starter(tmp_path, "-c", FAILING) as (process, pids):
        assert process.stdin
        process.stdin.close()

        assert process.wait(DEADLINE) == 1
        wait_until(none_alive(pids))
        assert list(tmp_path.iterdir()) == []


def test_kill_9_of_the_starter_kills_every_server_and_the_next_removes_what_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with starter(tmp_path, "-m", "devstack", "--json") as (process, pids):
        process.kill()
        process.wait(DEADLINE)
        wait_until(none_alive(pids))
    assert list(tmp_path.iterdir()) != []

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_in_use_is_not_taken_for_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with private_folder() as first, private_folder() as second:
        assert sorted(tmp_path.iterdir()) == sorted([first, second])

    assert list(tmp_path.iterdir()) == []
