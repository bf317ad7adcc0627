"""The units of systemd: each stops in good order, comes back by itself, and may do little."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from service.console.parser import parser

ROOT = Path(__file__).parents[2]
VERBS = {
    "courier-tracking.service": "run",
    "courier-tracking-api.service": "api",
    "courier-tracking-ingest.service": "ingest",
}
WORKER = "courier-tracking.service"
DOORS = tuple(name for name in VERBS if name != WORKER)
HOME = "/opt/courier-tracking"
MOST_EXPOSED = 15
"""Tenths of what `systemd-analyze security` calls exposure: below 2 of 10 is "OK"."""


Settings = dict[str, list[str]]


def settings(name: str) -> Settings:
    """Every setting of a unit with its values, in their order."""
    found: Settings = defaultdict(list)
    for line in (ROOT / name).read_text("utf-8").splitlines():
        setting, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[setting].append(value)
    return found


@pytest.fixture(params=VERBS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def unit(name: str) -> Settings:
    return settings(name)


def test_there_is_a_unit_for_the_worker_and_each_door() -> None:
    assert {file.name for file in ROOT.glob("*.service")} == set(VERBS)


def test_the_worker_is_killed_only_after_it_would_have_stopped() -> None:
    unit = settings(WORKER)
    grace = tomllib.loads((ROOT / "config.toml").read_text("utf-8"))["worker"]["grace_seconds"]

    assert float(unit["TimeoutStopSec"][0]) > grace + 5
    assert unit["KillMode"] == ["mixed"]


@pytest.mark.parametrize("door", DOORS)
def test_a_door_is_killed_when_compose_would_kill_it(compose: dict[str, Any], door: str) -> None:
    period = compose["services"][VERBS[door]]["stop_grace_period"]

    assert settings(door)["TimeoutStopSec"] == [period.removesuffix("s")]


def test_it_comes_back_for_as_long_as_it_takes(unit: Settings) -> None:
    assert unit["Restart"] == ["on-failure"]
    assert unit["StartLimitIntervalSec"] == ["0"]


def test_what_it_starts_is_a_verb(name: str, unit: Settings) -> None:
    python, script, verb = shlex.split(unit["ExecStart"][0])
    parser().parse_args([verb])

    assert (python, script, verb) == (f"{HOME}/.venv/bin/python", "worker.py", VERBS[name])
    assert unit["WorkingDirectory"] == [HOME]


def test_passwords_come_from_a_file_that_must_be_there(unit: Settings) -> None:
    (file,) = unit["EnvironmentFile"]

    assert file.startswith("/")  # not "-": without it the worker would go to unprotected servers
    assert not re.search("password|secret", " ".join(unit["Environment"]), re.IGNORECASE)


@pytest.mark.parametrize("door", DOORS)
def test_a_door_may_write_its_spool_and_its_keys_and_nothing_else(door: str) -> None:
    unit = settings(door)
    folder = f"/var/lib/{unit['StateDirectory'][0]}"

    assert f"TRACKER_INGEST__SPOOL={folder}/spool.sqlite" in unit["Environment"]
    assert f"TRACKER_INGEST__KEYS={folder}/keys.json" in unit["Environment"]
    assert (unit["StateDirectoryMode"], unit["ProtectSystem"]) == (["0700"], ["strict"])
    assert "ReadWritePaths" not in unit


def test_the_doors_share_a_spool_so_they_are_one_user() -> None:
    one, other = map(settings, DOORS)

    for setting in ("User", "DynamicUser", "StateDirectory"):
        assert one[setting] == other[setting] != []


def analyze(name: str, tmp_path: Path, *asked: str) -> subprocess.CompletedProcess[str]:
    """Ask systemd about a unit, installed in a folder of this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    home = tmp_path / "home"
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "python").symlink_to(sys.executable)
    copy = tmp_path / name
    python = f"{HOME}/.venv/bin/python"
    quoted = (
        (ROOT / name).read_text("utf-8").replace(python, f'"{python}"')
    )  # this folder may have blanks
    copy.write_text(quoted.replace(HOME, str(home)))
    return subprocess.run(
        ["systemd-analyze", *asked, str(copy)], capture_output=True, text=True, check=False
    )


def test_systemd_understands_every_line(name: str, tmp_path: Path) -> None:
    done = analyze(name, tmp_path, "verify", "--man=no")

    assert (done.returncode, done.stderr) == (0, "")


def test_it_may_do_no_more_than_it_needs(name: str, tmp_path: Path) -> None:
    done = analyze(name, tmp_path, "security", "--offline=true", f"--threshold={MOST_EXPOSED}")

    assert done.returncode == 0, done.stdout
