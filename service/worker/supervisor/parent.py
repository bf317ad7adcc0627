"""The parent process: starts its processes, restarts the dead, kills the silent, stops them all.

It knows no server and no courier, so that nothing can hang or swell here: what a process does is
its own; whether it lives is decided by a pipe and a clock.

=================================== =============================================================
a process                           the parent
=================================== =============================================================
ends                                starts it again after 0.5 s, doubled up to 30 s; from the
                                    beginning once it lived for a minute
ends with 2 (a server is refused)   the same, as long as another worker works or may still do so;
                                    ends with 2 when all were refused: a restart would not help
is silent for longer than `silence` kills it: a call of a hanging worker must not outlive its lease
has not beaten yet                  waits for `boot`: a busy machine takes its time to start one
=================================== =============================================================

They are `processes` workers, and one process that archives beside them. That one starts when the
first worker works: what the worker insists on holds for it, too, and it need not ask for itself.

SIGTERM and SIGINT are passed on as SIGTERM; after `grace` and a margin what is left is killed, at
once on a second signal.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service import REFUSED, VERSION
from service.observe.counts import Counts
from service.observe.events import Event
from service.observe.log import Emit
from service.worker.supervisor.lifeline import LIVES, WORKS
from service.worker.supervisor.pulse import Pulse, answer, open_door

PIPE_BYTES = 65_536
"""What a pipe holds: one read takes all that is there."""

_BEATS = frozenset({LIVES, WORKS})


@dataclass(slots=True)
class Child:
    """A running process and its signs of life. Times are of `time.monotonic()`."""

    process: subprocess.Popen[bytes]
    beats: int
    """Where its heartbeats arrive: a descriptor that never blocks."""
    started: float
    last_beat: float
    beaten: bool = False
    works: bool = False
    """Whether it said that it is connected and does its work."""
    unread: bytes = b""

    def listen(self, counts: Counts) -> bool:
        """Take what heartbeats and counts there are; false when there will be no more."""
        try:
            read = os.read(self.beats, PIPE_BYTES)
        except BlockingIOError:
            return True
        if not read:
            return False
        *lines, self.unread = (self.unread + read).split(b"\n")
        self.last_beat = time.monotonic()
        self.beaten = True
        self.works = self.works or WORKS in lines
        counts.take(b"\n".join(line for line in lines if line not in _BEATS))
        return True

    def ask_to_stop(self) -> None:
        """Ask it to finish or hand back what it holds. An ended process is none to ask."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; works on a stopped process too."""
        self.process.kill()

    def close(self) -> None:
        """Let go of the descriptor; only after it ended."""
        os.close(self.beats)


def start(command: Sequence[str]) -> Child:
    """Start a process. The descriptor for its beats is appended to its arguments.

    It gets a session of its own: Ctrl-C on a terminal reaches the parent only, which passes it on
    once. Otherwise the child would see two signals, and the second means "at once".
    """
    beats, theirs = os.pipe()
    os.set_blocking(beats, False)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, str(theirs)],
            pass_fds=(theirs,),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except BaseException:
        os.close(beats)
        raise
    finally:
        os.close(theirs)
    now = time.monotonic()
    return Child(process, beats, started=now, last_beat=now)


CLEAN = frozenset({0, -signal.SIGTERM})
"""A child that was asked to stop before it could listen ends of SIGTERM, and held nothing yet."""
STOP_MARGIN_SECONDS = 5.0
"""What a worker may need beyond its grace to hand back and to close its connections."""
_NAPS = 4
_KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of processes to run. Times are in seconds."""

    command: Sequence[str]
    processes: int
    silence: float
    grace: float
    installation: str = ""
    """By what `check --worker` finds this worker (see `settings.installation`)."""
    archiver: Sequence[str] = ()
    """The command of the process that archives; empty: none does."""
    margin: float = STOP_MARGIN_SECONDS
    first_delay: float = 0.5
    delay_cap: float = 30.0
    healthy_after: float = 60.0
    boot: float = 60.0
    """How long a process may take to its first sign of life: until then it makes no calls."""


@dataclass(slots=True)
class Slot:
    """A place for one process: it is filled, or to be filled at `start_at`."""

    name: int | str
    """As the log tells it: a worker's number, or what the process does."""
    command: Sequence[str] = ()
    child: Child | None = None
    failures: int = 0
    refused: bool = False
    """Whether the last one that ended here was refused."""
    start_at: float = 0.0

    def fell_empty(self, plan: Plan, lived: float, now: float) -> float:
        """Note that the child ended; tells the seconds until the next one is started."""
        self.child = None
        self.failures = 1 if lived >= plan.healthy_after else self.failures + 1
        delay = min(plan.delay_cap, plan.first_delay * 2.0 ** min(self.failures - 1, 16))
        self.start_at = now + delay
        return delay


class Parent:
    """Runs the plan until a signal; `run` may be called once."""

    def __init__(self, plan: Plan, emit: Emit, counts: Counts | None = None) -> None:
        """`counts` gathers what the children count."""
        self._plan = plan
        self._counts = counts or Counts()
        self._emit = emit
        self._workers = [Slot(index, plan.command) for index in range(plan.processes)]
        self._archiver = Slot("archiver", plan.archiver, start_at=math.inf)
        self._slots = [*self._workers, *([self._archiver] if plan.archiver else [])]
        self._selector = selectors.DefaultSelector()
        self._began = time.time()
        self._door = open_door(plan.installation)
        self._stop_by: float | None = None
        self._stopping_since = 0.0
        self._hurried = False
        self._exit_code = 0

    def run(self) -> int:
        """Run to the end; 0 after a clean stop, 2 when all workers were refused, else 1."""
        with _signals() as arrived:
            self._selector.register(arrived, selectors.EVENT_READ)
            if self._door is not None:
                self._selector.register(self._door, selectors.EVENT_READ)
            self._fill()
            while self._stop_by is None or any(slot.child for slot in self._slots):
                self._wait()
                for number in _taken(arrived):
                    if number != signal.SIGCHLD:
                        self._stop()
                self._close_ended()
                self._judge()
                self._fill()
            self._selector.close()
            if self._door is not None:
                self._door.close()
        return self._exit_code

    def _fill(self) -> None:
        now = time.monotonic()
        if math.isinf(self._archiver.start_at) and self._any_works():
            self._archiver.start_at = now
        for slot in self._slots:
            if slot.child is None and self._stop_by is None and slot.start_at <= now:
                slot.child = start(slot.command)
                self._selector.register(slot.child.beats, selectors.EVENT_READ, slot.child)
                self._emit(Event.CHILD_STARTED, process=slot.name, pid=slot.child.process.pid)

    def _wait(self) -> None:
        before = time.monotonic()
        planned = max(0.0, self._next_due() - before)
        ready = self._selector.select(planned)
        overslept = time.monotonic() - before - planned
        for child in self._children():
            # We were stopped or frozen, and the children perhaps with us: that is no silence.
            child.last_beat += max(0.0, overslept)
        for key, _ in ready:
            if key.fileobj is self._door:
                answer(self._door, self.pulse())
            # A closed pipe stays readable for ever: without this the loop would spin.
            if isinstance(key.data, Child) and not key.data.listen(self._counts):
                self._selector.unregister(key.fileobj)

    def pulse(self) -> Pulse:
        """Tell how the workers do; a thread may ask, too."""
        beating = sum(slot.child.beaten for slot in self._workers if slot.child)
        return Pulse(os.getpid(), VERSION, self._began, self._plan.processes, beating)

    def _next_due(self) -> float:
        # Short naps: only what exceeds one is known to be no silence.
        times = [time.monotonic() + self._plan.silence / _NAPS]
        times += [child.last_beat + self._patience(child) for child in self._children()]
        if self._stop_by is not None:
            times.append(self._stop_by)
        else:
            times += [slot.start_at for slot in self._slots if slot.child is None]
        return min(times)

    def _close_ended(self) -> None:
        for slot in self._slots:
            child = slot.child
            if child is None or (code := child.process.poll()) is None:
                continue
            child.listen(self._counts)  # its last words
            with contextlib.suppress(KeyError):
                self._selector.unregister(child.beats)
            child.close()
            now = time.monotonic()
            delay = slot.fell_empty(self._plan, now - child.started, now)
            slot.refused = code == REFUSED
            if self._stop_by is not None:
                self._exit_code = self._exit_code or int(code not in CLEAN)
            elif self._all_refused():
                self._exit_code = REFUSED
                self._stop()
            else:
                ended = {"process": slot.name, "pid": child.process.pid, "code": code}
                self._emit(Event.CHILD_DIED, **ended, delay_ms=round(delay * 1000))

    def _all_refused(self) -> bool:
        return not self._any_works() and all(slot.refused for slot in self._workers)

    def _any_works(self) -> bool:
        return any(slot.child.works for slot in self._workers if slot.child)

    def _judge(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            child = slot.child
            if child is None:
                continue
            named = {"process": slot.name, "pid": child.process.pid}
            if self._stop_by is not None and now >= self._stop_by:
                child.kill()
                event = Event.CHILD_HURRIED if self._hurried else Event.CHILD_KILLED
                self._emit(event, **named, waited_ms=round((now - self._stopping_since) * 1000))
            elif (silent := now - child.last_beat) >= self._patience(child):
                child.kill()
                self._emit(Event.CHILD_SILENT, **named, silent_ms=round(silent * 1000))
            else:
                continue
            _await_end(child.process)

    def _stop(self) -> None:
        """First call: ask all to stop. Any further call: at once."""
        now = time.monotonic()
        if self._stop_by is not None:
            self._stop_by, self._hurried = now, True
            return
        self._stopping_since, self._stop_by = now, now + self._plan.grace + self._plan.margin
        for child in self._children():
            child.ask_to_stop()
        self._emit(Event.STOPPING, processes=sum(1 for _ in self._children()))

    def _patience(self, child: Child) -> float:
        """Tell how long a child may be silent."""
        return self._plan.silence if child.beaten else max(self._plan.silence, self._plan.boot)

    def _children(self) -> Iterator[Child]:
        return (slot.child for slot in self._slots if slot.child)


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """Give a socket on which the numbers of arriving signals can be read."""
    ours, pythons = socket.socketpair()
    ours.settimeout(0)
    pythons.settimeout(0)
    before = signal.set_wakeup_fd(pythons.fileno())
    watched = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
    handlers = {number: signal.signal(number, lambda *_: None) for number in watched}
    try:
        yield ours
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        ours.close()
        pythons.close()


def _taken(arrived: socket.socket) -> bytes:
    try:
        return arrived.recv(4096)
    except BlockingIOError:
        return b""


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait a moment for a killed process: one in an unbroken system call is reaped later."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)
