"""Each example puts the job it promises, through the client it was written for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import greenstalk
import pytest

from devstack import package
from devstack.servers import Server
from service.tubes.envelope import decode_request
from tracking.request import Origin, Slug

EXAMPLES = Path(__file__).parents[2] / "examples"
CACHE = package.CACHE / "npm"
ASKED = ("usps", "9405903699300184125060", "order-1042")


@pytest.fixture
def tube(beanstalkd: Server) -> Iterator[greenstalk.Client]:
    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, watch="requests_flow") as client:
        yield client


@pytest.fixture(scope="session")
def node_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Node example beside its one dependency; installed in a copy, so the tree stays clean."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    if (EXAMPLES / "node" / "node_modules" / "jackd").is_dir():
        return EXAMPLES / "node" / "producer.mjs"
    copy = tmp_path_factory.mktemp("node") / "example"
    shutil.copytree(EXAMPLES / "node", copy, ignore=shutil.ignore_patterns("node_modules"))
    quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    once = ["--fetch-retries=0", "--fetch-timeout=10000"]
    kept = ["--cache", str(CACHE), "--no-update-notifier"]  # for a second run without network
    done = _run([npm, "ci", *quietly, *once, *kept], cwd=copy)
    if done.returncode != 0:
        pytest.skip(f"npm could not install jackd: {done.stderr.strip()[-200:]}")
    return copy / "producer.mjs"


def _run(
    command: list[str | Path], address: str = "", cwd: Path = EXAMPLES.parent
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BEANSTALKD": address}
    return subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


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


def test_greenstalk_puts_one_request(tube: greenstalk.Client, beanstalkd_address: str) -> None:
    producer = EXAMPLES / "producer.py"

    _check(_run([sys.executable, producer, *ASKED], beanstalkd_address), tube)


def test_jackd_puts_one_request(
    tube: greenstalk.Client, beanstalkd_address: str, node_example: Path
) -> None:
    _check(_run(["node", node_example, *ASKED], beanstalkd_address), tube)


def test_pheanstalk_puts_one_request(tube: greenstalk.Client, beanstalkd_address: str) -> None:
    if shutil.which("php") is None or not (EXAMPLES / "vendor" / "autoload.php").exists():
        pytest.skip("php, or examples/vendor with pda/pheanstalk, is not installed")

    _check(_run(["php", EXAMPLES / "producer.php", *ASKED], beanstalkd_address), tube)


def test_beaneater_puts_one_request(tube: greenstalk.Client, beanstalkd_address: str) -> None:
    if shutil.which("ruby") is None or _run(["ruby", "-rbeaneater", "-e", ""]).returncode != 0:
        pytest.skip("ruby with the gem beaneater is not installed")

    _check(_run(["ruby", EXAMPLES / "producer.rb", *ASKED], beanstalkd_address), tube)
