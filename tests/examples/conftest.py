"""The Node example with its packages, for every test that wants it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from devstack import package
from devstack.command import run_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"
CACHE = package.CACHE / "npm"
NEEDED = ("jackd", "standardwebhooks")


@pytest.fixture(scope="session")
def node_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Node's example, with its packages; installed in a copy."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    if all((EXAMPLES / "node" / "node_modules" / each).is_dir() for each in NEEDED):
        return EXAMPLES / "node"
    copy = tmp_path_factory.mktemp("node") / "example"
    shutil.copytree(EXAMPLES / "node", copy, ignore=shutil.ignore_patterns("node_modules"))
    quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    once = ["--fetch-retries=0", "--fetch-timeout=10000"]
    kept = ["--cache", str(CACHE), "--no-update-notifier"]  # for a second run without network
    command = [npm, "ci", *quietly, *once, *kept]
    done = run_to_end(command, dict(os.environ), copy)
    if done.returncode != 0:
        pytest.skip(f"npm could not install its clients: {done.stderr.strip()[-200:]}")
    return copy
