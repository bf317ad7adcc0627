"""One command that is run to its end, and says where it stood when it does not come to one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

STACK_SECONDS = 5.0
"""How long a command may take to write its stack."""


def run_to_end(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    folder: Path | None = None,
    seconds: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder`, with this environment and no other.

    Raises TimeoutError with its output when it is not over after `seconds`: a bound for what hangs,
    not for what is slow on a busy machine. The stacks of its threads, and of what it started
    itself, are part of the output then, for those that are Python.
    """
    with subprocess.Popen(  # noqa: S603 - commands of the tests
        command,
        cwd=folder,
        env={**environment, "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        errors="replace",  # who is cut off may have written half a character
        start_new_session=True,  # so that a signal reaches what a shell waits for, too
    ) as process:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            out, errors = _last_words(process)
            told = f"not over after {seconds:g} s: {shlex.join(map(str, command))}"
            said = f"on standard error:\n{errors}\non standard output:\n{out}"
            raise TimeoutError(f"{told}\n{said}") from None
        except BaseException:
            with suppress(ProcessLookupError):  # its output was the trouble, and it is over
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def _last_words(process: subprocess.Popen[str]) -> tuple[str, str]:
    """All that it wrote, after a signal at which Python writes the stack of each thread."""
    for number in (signal.SIGABRT, signal.SIGKILL):
        os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=STACK_SECONDS)
    return "", "somebody else still holds its output"
