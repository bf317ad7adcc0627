"""courier-tracking.service: stops in good order, comes back by itself, and may do little."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "courier-tracking.service"
HOME = "/opt/courier-tracking"
MOST_EXPOSED = 15
"""Tenths of what `systemd-analyze security` calls exposure: below 2 of 10 is "OK"."""


@pytest.fixture(scope="module")
def unit() -> dict[str, list[str]]:
    """Every setting with its values, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text("utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name].append(value)
    return found


def test_it_is_killed_only_after_the_worker_would_have_stopped(unit: dict[str, list[str]]) -> None:
    grace = tomllib.loads((ROOT / "config.toml").read_text("utf-8"))["worker"]["grace_seconds"]

    assert float(unit["TimeoutStopSec"][0]) > grace + 5
    assert unit["KillMode"] == ["mixed"]


def test_it_comes_back_for_as_long_as_it_takes(unit: dict[str, list[str]]) -> None:
    assert unit["Restart"] == ["on-failure"]
    assert unit["StartLimitIntervalSec"] == ["0"]


def test_what_it_starts_is_a_verb_of_the_worker(unit: dict[str, list[str]]) -> None:
    python, *arguments = shlex.split(unit["ExecStart"][0])
    done = subprocess.run([sys.executable, *arguments, "--help"], cwd=ROOT, check=False)

    assert python == f"{HOME}/.venv/bin/python"
    assert unit["WorkingDirectory"] == [HOME]
    assert done.returncode == 0


def test_passwords_come_from_a_file_that_must_be_there(unit: dict[str, list[str]]) -> None:
    (file,) = unit["EnvironmentFile"]

    assert file.startswith("/")  # not "-": without it the worker would go to unprotected servers
    assert not re.search("password|secret", " ".join(unit["Environment"]), re.IGNORECASE)


def analyze(tmp_path: Path, *asked: str) -> subprocess.CompletedProcess[str]:
    """Ask systemd about the unit, installed in a folder of this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    home = tmp_path / "home"
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "python").symlink_to(sys.executable)
    copy = tmp_path / UNIT.name
    python = f"{HOME}/.venv/bin/python"
    quoted = UNIT.read_text("utf-8").replace(python, f'"{python}"')  # this folder may have blanks
    copy.write_text(quoted.replace(HOME, str(home)))
    return subprocess.run(
        ["systemd-analyze", *asked, str(copy)], capture_output=True, text=True, check=False
    )


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    done = analyze(tmp_path, "verify", "--man=no")

    assert (done.returncode, done.stderr) == (0, "")


def test_it_may_do_no_more_than_it_needs(tmp_path: Path) -> None:
    done = analyze(tmp_path, "security", "--offline=true", f"--threshold={MOST_EXPOSED}")

    assert done.returncode == 0, done.stdout
