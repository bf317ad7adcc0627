"""Samples of stacks become shares of the worker's parts."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import samples
from benchmarks.samples import LOOP, NotSampled, part_of, sampling, shares

HOME = Path("/srv/tracker")
LIBRARY = "/usr/lib/python3.11/asyncio"
PACKAGES = "/srv/tracker/.venv/lib/python3.11/site-packages"


def stack(*files: str) -> str:
    return ";".join(f"what (it does) ({file}:7)" for file in files)


@pytest.mark.parametrize(
    ("files", "part"),
    [
        ((f"{HOME}/couriers/http/fetch.py",), "asking couriers, reading answers"),
        (
            (f"{HOME}/couriers/http/fetch.py", f"{PACKAGES}/aiohttp/client.py"),
            "HTTP: aiohttp and its",
        ),
        ((f"{PACKAGES}/aiohttp/http.py", f"{LIBRARY}/selector_events.py"), "HTTP: aiohttp and"),
        ((f"{HOME}/service/results/bulk.py", f"{PACKAGES}/bson/__init__.py"), "results: documents"),
        ((f"{HOME}/service/tubes/wire.py", f"{PACKAGES}/greenstalk.py"), "jobs: reserving"),
        ((f"{HOME}/limits/pipeline.py", f"{PACKAGES}/redis/asyncio/client.py"), "limits: scripts"),
        ((f"{HOME}/service/flow/handle.py", "<string>"), "flow from step to step"),
        ((f"{LIBRARY}/runners.py", f"{LIBRARY}/base_events.py"), LOOP),
    ],
)
def test_a_stack_belongs_to_the_innermost_frame_outside_the_standard_library(
    files: tuple[str, ...], part: str
) -> None:
    assert part_of(stack(*files), HOME).startswith(part)


def test_shares_are_of_all_samples_and_the_largest_comes_first() -> None:
    folded = f"{stack(f'{HOME}/couriers/gls.py')} 1\n{stack(f'{HOME}/limits/permit.py')} 3\n"

    found = shares(folded, HOME)

    assert list(found.items()) == [
        ("limits: scripts, client, permits", 0.75),
        ("asking couriers, reading answers", 0.25),
    ]


def test_a_process_that_cannot_be_sampled_is_said_in_the_tracers_words(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:  # no Python in it
        refused = pytest.raises(NotSampled, match="may not look into the worker")
        with refused, sampling(other.pid, tmp_path / "stacks"):
            pass
        other.kill()


def test_without_the_tracer_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_TRACER", tmp_path / "py-spy")

    with pytest.raises(NotSampled, match="requirements-dev"), sampling(1, tmp_path / "stacks"):
        pass


def test_a_running_program_is_sampled_until_the_block_ends(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    busy = "import time; end = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", busy]) as program:
        try:
            with sampling(program.pid, file):
                time.sleep(0.3)
        except NotSampled as why:
            pytest.skip(f"not allowed here: {why}")
        finally:
            program.kill()

    assert shares(file.read_text(), HOME) == {LOOP: 1.0}
