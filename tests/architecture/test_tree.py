"""What the tree must and must not hold."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import limits
import service

REPOSITORY = Path(__file__).resolve().parents[2]

# Written in two parts, so that this file does not hold what it forbids.
REGISTRIES = ("files.python" + "hosted", "pypi." + "org", "registry." + "npmjs", "deb." + "debian")
MACHINE = re.compile(r"(?<![\w.~-])/(?:wo" + r"rk|ro" + r"ot)/\w")
BINARY = b"\0"


def texts() -> list[tuple[str, str]]:
    """Every file that is or may be committed, with its path in the repository."""
    git = shutil.which("git")
    if git is None or not (REPOSITORY / ".git").exists():
        pytest.fail("this test reads the list of files from git, and runs in a clone")
    listed = subprocess.run(
        [git, "-C", REPOSITORY, "ls-files", "-z", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [name for name in listed.split("\0") if name and (REPOSITORY / name).is_file()]
    contents = [(name, (REPOSITORY / name).read_bytes()) for name in names]
    return [(name, data.decode()) for name, data in contents if BINARY not in data]


def test_the_package_limits_is_ours() -> None:
    assert limits.__file__ == str(REPOSITORY / "limits" / "__init__.py")


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_file_names_a_package_registrys_host(host: str) -> None:
    assert [name for name, text in texts() if host in text] == []


def test_no_file_holds_a_path_of_the_machine_it_was_written_on() -> None:
    found = [
        f"{name}: {line.strip()}"
        for name, text in texts()
        for line in text.splitlines()
        if MACHINE.search(line)
    ]

    assert found == []


def test_the_version_is_that_of_the_project_file() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["version"] == service.VERSION


def test_every_package_says_what_it_is_for() -> None:
    packages = ("tracking", "couriers", "limits", "service", "devstack")
    silent = [
        str(path.relative_to(REPOSITORY))
        for package in packages
        for path in (REPOSITORY / package).rglob("__init__.py")
        if not path.read_text().startswith('"""')
    ]

    assert silent == []


def test_every_test_file_has_a_name_of_its_own() -> None:
    names = [path.name for path in (REPOSITORY / "tests").rglob("test_*.py")]

    assert sorted(names) == sorted(set(names))
