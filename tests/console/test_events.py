"""`events`: the ends of requests are printed as they come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from command_line import Run
from test_cancel import NUMBER, waits

ROOT = Path(__file__).parents[2]


@contextmanager
def following(addresses: dict[str, str], *options: str) -> Iterator[subprocess.Popen[str]]:
    """`events` as a process, which is interrupted at the end."""
    with subprocess.Popen(
        [sys.executable, "worker.py", "events", *options],
        cwd=ROOT,
        env={**os.environ, **addresses},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_an_end_is_printed_at_once_where_it_is_meant(
    run: Run, store: redis.Redis, addresses: dict[str, str]
) -> None:
    waits(store, "dpd", "15501234567890", "order-0")
    waits(store, "usps", NUMBER, "order-1")
    with following(addresses, "usps", "--json") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "tracker: ends from now on, until Ctrl-C\n"
        assert run("cancel", "dpd", "15501234567890").code == 0
        assert run("cancel", "usps", NUMBER).code == 0
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())

    assert (told["id"], told["slug"], told["number"]) == ("order-1", "usps", NUMBER)
    assert (told["status"], told["account"]) == ("CANCELLED", "main")


def test_a_courier_that_is_none_is_refused_instead_of_followed(offline: Run) -> None:
    done = offline("events", "uspss")

    assert (done.code, "did you mean usps?" in done.err) == (2, True)
