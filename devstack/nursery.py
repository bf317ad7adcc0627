"""Starting programs that cannot outlive this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from devstack import launch


class Nursery:
    """Starts programs that end when this process ends, whatever ends it: also `kill -9`.

    The kernel watches the *thread* that started a program, so all are started by one thread that
    lives until `close`. Each gets a session of its own: Ctrl-C in a terminal reaches only the
    starter, which then stops its programs in order.
    """

    def __init__(self) -> None:
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devstack-starter")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start `command` with its output appended to `log`; `environment` is added to ours."""
        return self._starter.submit(_start, command, log, environment).result()

    def close(self) -> None:
        """Let the starting thread end; the kernel kills what still runs."""
        self._starter.shutdown()


def _start(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    launcher = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
    # Ours is handed on by the kernel: to read it here could meet a thread that just changes it.
    added = ["/usr/bin/env", *(f"{name}={text}" for name, text in environment.items())]
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - commands of this package
            [*launcher, *(added if environment else []), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
