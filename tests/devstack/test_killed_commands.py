"""`make demo` and `make stack`, killed in the middle: every process they started ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE = 30.0
DEMO = "worker.py demo"
WORKER_PROCESS = "run --child"
SITE = "devstack.site"
DOOR = "worker.py --config /dev/null api"


class Command:
    """A target of the Makefile with all processes it started: they share a temporary folder."""

    def __init__(self, target: str, folder: Path) -> None:
        self.folder = folder / "tmp"
        self.folder.mkdir()
        ready = folder / "ready"  # newer than the lock file: the environment is not made again
        ready.touch()
        # Relative, because make knows no blank in a path, and the repository's may hold one.
        places = {"READY": ready, "BIN": Path(sys.executable).parent}
        self.make = subprocess.Popen(
            [
                "make",
                target,
                *(f"{name}={os.path.relpath(path, REPOSITORY)}" for name, path in places.items()),
            ],
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def processes(self, words: str = "") -> list[int]:
        """The ids of the processes whose command line holds `words`, make's own not among them."""
        mark = f"TMPDIR={self.folder}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                ours = mark in (folder / "environ").read_bytes().split(b"\0")
                if ours and words in command and int(folder.name) != self.make.pid:
                    found.append(int(folder.name))
        return found

    def values(self, variable: str) -> set[Path]:
        """What a variable is in the processes that have it."""
        found = set()
        for pid in self.processes():
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if line.startswith(f"{variable}=".encode()):
                        found.add(Path(line.partition(b"=")[2].decode()))
        return found

    def await_one(self, words: str) -> int:
        wait_until(lambda: bool(self.processes(words)), f"a process `{words}`")
        return self.processes(words)[0]

    def end(self) -> None:
        for pid in [*self.processes(), self.make.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.make.wait()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE} s"
        time.sleep(0.05)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Command]]:
    monkeypatch.delenv("TRACKER_INGEST__SPOOL")  # the demo has one of its own
    started: list[Command] = []

    def begin(target: str) -> Command:
        started.append(Command(target, tmp_path))
        return started[-1]

    yield begin
    for command in started:
        command.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_killed_demo_leaves_nothing(
    start: Callable[[str], Command], number: signal.Signals
) -> None:
    demo = start("demo")
    demo.await_one(DOOR)
    [spool] = demo.values("TRACKER_INGEST__SPOOL")

    os.kill(demo.await_one(DEMO), number)

    wait_until(lambda: not demo.processes(), "everything ended")
    assert list(demo.folder.iterdir()) == []
    assert not spool.parent.exists()


@pytest.mark.parametrize(("target", "last_started"), [("demo", WORKER_PROCESS), ("stack", SITE)])
def test_make_killed_alone_leaves_nothing(
    start: Callable[[str], Command], target: str, last_started: str
) -> None:
    command = start(target)
    command.await_one(last_started)

    command.make.kill()

    wait_until(lambda: not command.processes(), "everything ended")
    assert list(command.folder.iterdir()) == []
