"""A command that does not come to its end shows where it stood."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from devstack import command
from devstack.command import run_to_end

STANDS = """
import time
def stands_here():
    print("so far", flush=True)
    time.sleep(60)
stands_here()
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_what_ended_in_time_gives_its_output_and_its_code() -> None:
    done = run_to_end(python("import sys; print('out'); sys.exit('why')"), os.environ)

    assert (done.returncode, done.stdout, done.stderr) == (1, "out\n", "why\n")


def test_a_command_has_the_environment_and_the_folder_that_it_was_given(tmp_path: Path) -> None:
    code = "import os; print(os.environ['OURS'], os.getcwd())"

    done = run_to_end(python(code), {"OURS": "1"}, tmp_path)

    assert done.stdout == f"1 {tmp_path}\n"


def test_what_is_not_over_in_time_shows_its_stack_and_its_output_also_of_a_script() -> None:
    script = ["bash", "-c", '"$0" -c "$1"; echo never', *python(STANDS)[::2]]

    with pytest.raises(TimeoutError) as raised:
        run_to_end(script, os.environ, seconds=2)

    told = str(raised.value)
    assert "not over after 2 s" in told
    assert "in stands_here" in told
    assert "so far" in told.partition("on standard output")[2]
    assert "never" not in told.partition("on standard output")[2]


def test_what_will_not_abort_is_killed_and_its_output_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "STACK_SECONDS", 0.1)
    code = "import signal; signal.signal(signal.SIGABRT, signal.SIG_IGN)" + STANDS

    with pytest.raises(TimeoutError, match="so far"):
        run_to_end(python(code), os.environ, seconds=2)
