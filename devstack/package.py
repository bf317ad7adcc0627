"""A file out of the distribution's own package, fetched and unpacked without root."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from devstack.errors import NotUsable

CACHE = Path(__file__).resolve().parents[1] / ".devstack"
"""Where programs stay between runs, so that the second run works offline. Not in git."""

APT_PATIENCE = 300.0
"""Seconds for a whole update or download on a slow line."""

_SETTINGS = """\
APT::Sandbox::User "root";
Acquire::Retries "3";
Debug::NoLocking "1";
"""
# The sandbox user could not read a private folder. Nothing of the system is written, so no lock.

_PRIVATE_LISTS = """\
Dir::State::Lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
# The system's hooks after an update belong to the system's own lists, and want root.


def download(name: str, target: Path, wanted: str) -> None:
    """Put the file `wanted` of the package `name` at `target`, in one atomic step.

    `wanted` is a path without the first slash; a `*` in it stands for the machine's kind.
    Asks with the system's lists first; where those are empty or stale, with a private update.
    Raises NotUsable with what apt said.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NotUsable(f"the package {name}: there is no {tool} on this system")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="apt-", dir=target.parent) as temporary:
        folder = Path(temporary)
        try:
            _fetch(name, folder, _SETTINGS)
        except NotUsable:
            _fetch_with_private_lists(name, folder)
        _unpack(name, folder, wanted).replace(target)


def _fetch_with_private_lists(name: str, folder: Path) -> None:
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    settings = _SETTINGS + _PRIVATE_LISTS.format(folder=folder)
    trouble = ""
    try:
        _apt(["update", "--error-on=any"], folder, settings)
    except NotUsable as error:  # perhaps only of a source that does not hold the package
        trouble = f"; before that {error}"
    try:
        _fetch(name, folder, settings)
    except NotUsable as error:
        raise NotUsable(f"{error}{trouble}") from error


def _fetch(name: str, folder: Path, settings: str) -> None:
    _apt(["download", name], folder, settings)


def _apt(arguments: list[str], folder: Path, settings: str) -> None:
    configuration = folder / "apt.conf"
    configuration.write_text(settings)
    _run(["apt-get", "-q", "-c", str(configuration), *arguments], folder)


def _unpack(name: str, folder: Path, wanted: str) -> Path:
    archive = next(folder.glob(f"{name}_*.deb"), None)
    if archive is None:
        raise NotUsable(f"the package {name}: apt-get download left no file")
    _run(["dpkg-deb", "-x", str(archive), "root"], folder)
    found = next((path for path in (folder / "root").glob(wanted)), None)
    if found is None:
        raise NotUsable(f"the package {name} holds no /{wanted}")
    return found


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - apt-get and dpkg-deb
            command, cwd=folder, capture_output=True, text=True, timeout=APT_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotUsable(f"`{' '.join(command)}`: {error}") from error
    if done.returncode:
        said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise NotUsable(f"`{' '.join(command)}` failed: {said}")
