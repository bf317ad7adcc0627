"""Where lines go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from service.observe.writer import LINE_MOST, Output


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        os.close(end)


def arrived(pipe: tuple[int, int]) -> bytes | None:
    try:
        return os.read(pipe[0], 1_000_000)
    except BlockingIOError:
        return None


async def test_lines_of_one_turn_of_the_loop_are_written_together(pipe: tuple[int, int]) -> None:
    out = Output(pipe[1])
    out.write_soon(b"one\n")
    out.write_soon(b"two\n")
    assert arrived(pipe) is None

    await asyncio.sleep(0)

    assert arrived(pipe) == b"one\ntwo\n"


async def test_a_line_that_must_not_wait_takes_along_those_before_it(pipe: tuple[int, int]) -> None:
    out = Output(pipe[1])
    out.write_soon(b"one\n")
    out.write(b"warning\n")
    assert arrived(pipe) == b"one\nwarning\n"

    await asyncio.sleep(0)

    assert arrived(pipe) is None


def test_without_a_loop_every_line_is_written_at_once(pipe: tuple[int, int]) -> None:
    Output(pipe[1]).write_soon(b"one\n")

    assert arrived(pipe) == b"one\n"


async def test_no_write_is_longer_than_a_pipe_takes_whole(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]
) -> None:
    pieces: list[bytes] = []
    monkeypatch.setattr(os, "write", lambda _, piece: pieces.append(piece))
    out = Output(pipe[1])
    lines = [b"%03d %s\n" % (number, b"x" * 295) for number in range(100)]
    for line in lines:
        out.write_soon(line)

    await asyncio.sleep(0)

    assert b"".join(pieces) == b"".join(lines)
    assert all(len(piece) <= LINE_MOST and piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) < 10
