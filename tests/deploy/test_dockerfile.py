"""The image: what enters it, as whom it runs, and what it starts."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _copied(stages: dict[str, Any]) -> set[str]:
    sources: set[str] = set()
    for stage in stages.values():
        for line in stage.all("COPY"):
            if not line.startswith("--from="):
                sources.update(word.rstrip("/") for word in line.split()[:-1])
    return sources


def test_every_file_that_is_copied_exists(stages: dict[str, Any]) -> None:
    missing = {source for source in _copied(stages) if not (ROOT / source).exists()}

    assert missing == set()


def test_only_what_the_image_copies_is_sent_to_the_builder(stages: dict[str, Any]) -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()

    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == _copied(stages)


def test_tests_and_development_servers_stay_out_of_the_image(stages: dict[str, Any]) -> None:
    unwanted = {"tests", "devstack", "benchmarks", "examples", "docs", "requirements-dev.txt"}

    assert _copied(stages) & unwanted == set()


def test_the_worker_is_what_is_built_without_a_target(stages: dict[str, Any]) -> None:
    assert list(stages)[-1] == "worker"


def test_dependencies_are_installed_only_by_hash_and_only_as_wheels(stages: dict[str, Any]) -> None:
    installs = [line for line in stages["build"].all("RUN") if "pip install" in line]

    assert len(installs) == 1
    words = shlex.split(installs[0])
    assert "--require-hashes" in words
    assert words[words.index("--only-binary") + 1] == ":all:"
    assert words[words.index("-r") + 1] == "requirements.txt"


@pytest.mark.parametrize("image", ["worker", "beanstalkd"])
def test_an_image_ends_as_a_user_by_number_who_is_not_root(
    stages: dict[str, Any], image: str
) -> None:
    user, _, group = stages[image].all("USER")[-1].partition(":")

    assert int(user) > 0
    assert int(group) > 0


@pytest.mark.parametrize("instruction", ["CMD", "HEALTHCHECK"])
def test_what_the_image_starts_is_a_verb_of_the_worker(
    stages: dict[str, Any], instruction: str
) -> None:
    line = stages["worker"].all(instruction)[-1]
    program, *arguments = json.loads(line[line.index("[") :])

    assert program == "python"
    answer = subprocess.run(
        [sys.executable, *arguments, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


def test_the_image_offers_no_demo_because_its_servers_are_not_there(
    stages: dict[str, Any], tmp_path: Path
) -> None:
    for name in _copied(stages):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)

    offered, asked = (
        subprocess.run(
            [sys.executable, "worker.py", word],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        for word in ("--help", "demo")
    )

    assert offered.returncode == 0
    assert "demo" not in offered.stdout
    assert (asked.returncode, "there is no verb 'demo'" in asked.stderr) == (2, True)


def test_the_command_is_beside_the_python_that_the_image_finds(stages: dict[str, Any]) -> None:
    worker = stages["worker"]
    [home] = worker.all("WORKDIR")
    [path] = [line for line in worker.all("ENV") if "PATH=" in line]
    [made] = [line for line in worker.all("RUN") if "tracker.sh" in line]

    # The script looks for worker.py two folders above itself.
    assert f"PATH={home}/.venv/bin:$PATH" in path
    assert f"--from=build {home}/.venv .venv" in worker.all("COPY")
    assert stages["build"].all("WORKDIR") == [home], "scripts of an environment name its path"
    assert made.endswith("service/console/tracker.sh .venv/bin/tracker")


def test_the_command_runs_in_a_folder_that_holds_what_the_image_holds(
    stages: dict[str, Any], tmp_path: Path
) -> None:
    for name in _copied(stages):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    command = tmp_path / ".venv" / "bin" / "tracker"
    command.parent.mkdir(parents=True)
    shutil.copy(tmp_path / "service" / "console" / "tracker.sh", command)
    command.chmod(0o755)
    # As a virtual environment's: it must be called by the path that was asked for.
    python = command.with_name("python")
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)

    done = subprocess.run([command, "--help"], cwd="/", capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" not in done.stdout


def test_the_image_says_its_version_commit_and_date(stages: dict[str, Any]) -> None:
    worker = stages["worker"]
    [labels] = worker.all("LABEL")
    filled = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="\$\{(\w+)\}"', labels))
    recipe = (ROOT / "Makefile").read_text("utf-8").split("\nimage: ")[1].split("\n\n")[0]

    assert filled == {"version": "VERSION", "revision": "REVISION", "created": "CREATED"}
    assert {line.partition("=")[0] for line in worker.all("ARG")} == set(filled.values())
    assert set(re.findall(r"--build-arg (\w+)=", recipe)) == set(filled.values())


def test_what_is_missing_to_build_the_image_is_said(tmp_path: Path) -> None:
    make = shutil.which("make")
    for name in ("sh", "sed"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [str(make), "image"],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "There is no docker here" in done.stderr


def test_the_image_is_stopped_by_sigterm(stages: dict[str, Any]) -> None:
    assert stages["worker"].all("STOPSIGNAL") == ["SIGTERM"]
    assert stages["beanstalkd"].all("STOPSIGNAL") == ["SIGTERM"]
