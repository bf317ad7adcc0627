"""What the README tells a newcomer to type works as it stands there, and the page stays short."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

from devstack.command import run_to_end
from devstack.stack import Stack, environment

ROOT = Path(__file__).parents[2]
LINES_MOST = 100


def _readme() -> str:
    return (ROOT / "README.md").read_text("utf-8")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_the_five_minutes_with_a_feed_of_ones_own_work_as_written(
    stack: Stack, beanstalkd_address: str, redis_url: str, mongo_uri: str, tmp_path: Path
) -> None:
    del redis_url, mongo_uri  # emptied and serving
    section = _readme().split("## Five minutes")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.+?)```", section, re.DOTALL)
    # On ports of this test's own, from another folder, and with an end.
    typed = block.replace("8000", str(_free_port()))
    typed = typed.replace(".venv/bin/tracker", f"'{sys.executable}' '{ROOT}/worker.py'")
    script = f"trap 'kill $(jobs -p); wait' EXIT\n{typed}"
    servers = environment(stack) | {
        "TRACKER_BEANSTALKD__SERVERS": f'["{beanstalkd_address}"]',
        "TRACKER_MONGODB__DATABASE": "readme",
    }

    done = run_to_end(["bash", "-eu", "-c", script], {**os.environ, **servers}, tmp_path)

    assert done.returncode == 0, done.stderr
    assert "SUCCESS   my-courier AB12345  InTransit, 1 checkpoint" in done.stdout
    assert "Arrived at the sorting centre" in done.stdout


def test_the_readme_stays_short() -> None:
    assert len(_readme().splitlines()) <= LINES_MOST


def test_every_page_is_linked_from_the_readme() -> None:
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}

    assert {page for page in pages if f"({page}" not in _readme()} == set()
