"""Where lines go, and who waits for it: nobody who logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.observe.events import Event
from service.observe.log import LINE_MOST, Output, emitter, lines

ROOT = Path(__file__).parents[2]
PATIENCE = 10.0

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        os.close(end)


def arrived(pipe: Pipe) -> bytes:
    try:
        return os.read(pipe[0], 1_000_000)
    except BlockingIOError:
        return b""


def all_arrived(pipe: Pipe, out: Output) -> list[bytes]:
    """Read to the end, as a reader does that goes on."""
    text = b""
    while not out.flush(0.01):
        text += arrived(pipe)
    return (text + arrived(pipe)).splitlines()


def within_patience(work: Callable[[], None]) -> None:
    """Run it; a test that hangs would tell less."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it waits for a reader"


def test_lines_keep_their_order_and_no_write_is_longer_than_a_pipe_takes_whole(
    monkeypatch: pytest.MonkeyPatch, pipe: Pipe
) -> None:
    pieces: list[bytes] = []
    real = os.write

    def write(to: int, piece: bytes) -> int:
        if to != pipe[1]:  # the log of a test before this one may still have a line to write
            return real(to, piece)
        pieces.append(piece)
        return len(piece)

    monkeypatch.setattr(os, "write", write)
    out = Output(pipe[1])
    written = [b"%03d %s\n" % (number, b"x" * 295) for number in range(100)]
    for line in written:
        out.write(line)
    assert out.flush(PATIENCE)

    assert b"".join(pieces) == b"".join(written)
    assert all(len(piece) <= LINE_MOST and piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) < 20


def test_a_reader_that_stalls_holds_up_nobody_and_the_next_line_counts_what_was_dropped(
    pipe: Pipe,
) -> None:
    made = lines("json", out=pipe[1])
    emit = emitter("info", made)

    def log() -> None:
        for number in range(20_000):
            emit(Event.ANSWERED, number=str(number), tag="x" * 500)

    within_patience(log)
    assert not made.out.flush(0.01)
    told = [int(json.loads(line)["number"]) for line in all_arrived(pipe, made.out)]
    emit(Event.STARTED)
    emit(Event.STOPPED)
    next_line, line_after = map(json.loads, all_arrived(pipe, made.out))

    assert told == list(range(len(told)))
    assert next_line["dropped"] == 20_000 - len(told) > 0
    assert "dropped" not in line_after


def test_a_descriptor_that_another_process_made_non_blocking_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe[1], False)
    out = Output(pipe[1])
    for number in range(1_000):
        out.write(b"%d %s\n" % (number, b"x" * 500))

    numbers = [int(line.split()[0]) for line in all_arrived(pipe, out)]

    assert numbers == list(range(1_000))


def test_what_cannot_be_written_is_counted() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    out = Output(full)
    out.write(b"one\n")
    out.write(b"two\n")

    assert out.flush(PATIENCE)
    os.close(full)
    assert out.take_dropped() == 2
    assert out.take_dropped() == 0


LOGS_AND_ENDS = """
from service.observe.log import Output
out = Output(1)
for number in range({count}):
    out.write(b"%d %s\\n" % (number, b"x" * 100))
"""


def started(count: int, out: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", LOGS_AND_ENDS.format(count=count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE)


def test_a_process_that_ends_writes_its_last_lines() -> None:
    with started(2_000, subprocess.PIPE) as process:
        out, errors = process.communicate(timeout=PATIENCE)

    assert [int(line.split()[0]) for line in out.splitlines()] == list(range(2_000))
    assert (process.returncode, errors) == (0, b"")


def test_a_process_that_ends_does_not_wait_for_ever_for_a_reader(pipe: Pipe) -> None:
    with started(2_000, pipe[1]) as process:
        assert process.wait(PATIENCE) == 0
