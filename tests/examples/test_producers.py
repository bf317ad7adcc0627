"""Each example puts the job it promises, through the client it was written for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import greenstalk
import pytest

from devstack.command import run_to_end
from devstack.servers import Server
from service.worker.tubes.envelope import decode_request
from tracking.request import Origin, Slug

EXAMPLES = Path(__file__).parents[2] / "examples"
ASKED = ("usps", "9405903699300184125060", "order-1042")


@pytest.fixture
def tube(beanstalkd: Server) -> Iterator[greenstalk.Client]:
    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, watch="requests_flow") as client:
        yield client


def _run(
    command: list[str | Path], address: str = "", cwd: Path = EXAMPLES.parent
) -> subprocess.CompletedProcess[str]:
    return run_to_end(command, {**os.environ, "BEANSTALKD": address}, cwd)


def _check(done: subprocess.CompletedProcess[str], tube: greenstalk.Client) -> None:
    assert done.returncode == 0, done.stderr
    job = tube.reserve(timeout=0)
    request = decode_request(job.body, lambda slug: (Slug(slug), ""))
    assert (request.slug, request.given, request.id) == ASKED
    assert request.origin is Origin.MANUAL
    stats = tube.stats_job(job)
    assert (stats["pri"], stats["ttr"], stats["delay"]) == (65536, 60, 0)
    assert f"put job {job.id};" in done.stdout
    with pytest.raises(greenstalk.TimedOutError):
        tube.reserve(timeout=0)


def _python(_: pytest.FixtureRequest) -> list[str | Path]:
    return [sys.executable, EXAMPLES / "producer.py"]


def _node(request: pytest.FixtureRequest) -> list[str | Path]:
    return ["node", request.getfixturevalue("node_example") / "producer.mjs"]


def _ruby(_: pytest.FixtureRequest) -> list[str | Path]:
    if shutil.which("ruby") is None or _run(["ruby", "-rbeaneater", "-e", ""]).returncode != 0:
        pytest.skip("ruby with the gem beaneater is not installed")
    return ["ruby", EXAMPLES / "producer.rb"]


def _php(_: pytest.FixtureRequest) -> list[str | Path]:
    if shutil.which("php") is None or not (EXAMPLES / "vendor" / "autoload.php").exists():
        pytest.skip("php, or examples/vendor with pda/pheanstalk, is not installed")
    return ["php", EXAMPLES / "producer.php"]


EVERY = pytest.mark.parametrize("client", [_python, _node, _ruby, _php])
Client = Callable[[pytest.FixtureRequest], list[str | Path]]


def _refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    """Told in a line, without a traceback."""
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@EVERY
def test_a_server_that_is_away_is_told_with_the_variable_that_names_another(
    client: Client, request: pytest.FixtureRequest
) -> None:
    command = client(request)

    _refused(_run([*command, *ASKED], "127.0.0.1:1"), "beanstalkd at 127.0.0.1:1 (BEANSTALKD names")
    _refused(_run([*command, *ASKED], "localhost"), "BEANSTALKD is 'localhost': write host:port")


@EVERY
def test_arguments_that_are_missing_are_named(
    client: Client, request: pytest.FixtureRequest
) -> None:
    _refused(_run([*client(request), *ASKED[:2]]), "SLUG NUMBER ID")


@pytest.mark.parametrize(
    ("program", "command", "told"),
    [
        (sys.executable, ["-S", "producer.py"], "pip install greenstalk"),
        (sys.executable, ["-S", "read_result.py"], "pip install pymongo redis"),
        ("node", ["node/producer.mjs"], "npm ci"),
        ("ruby", ["--disable-gems", "producer.rb"], "gem install beaneater"),
        ("php", ["producer.php"], "composer require pda/pheanstalk"),
    ],
)
def test_a_client_that_is_not_installed_is_named_with_its_installation(
    tmp_path: Path, program: str, command: list[str], told: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if program == "ruby" and _run(["ruby", *command[:1], "-rbeaneater", "-e", ""]).returncode == 0:
        pytest.skip("beaneater is part of this ruby")
    # A copy, without what somebody may have installed beside the examples.
    installed = shutil.ignore_patterns("node_modules", "vendor")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=installed)

    _refused(_run([program, *command, *ASKED], cwd=tmp_path / "examples"), told)


@EVERY
def test_each_client_puts_one_request(
    client: Client,
    request: pytest.FixtureRequest,
    tube: greenstalk.Client,
    beanstalkd_address: str,
) -> None:
    _check(_run([*client(request), *ASKED], beanstalkd_address), tube)
