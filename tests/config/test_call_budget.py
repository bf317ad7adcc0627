"""How many calls a process carries on this machine: the least of three bounds, and which it is."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from service.config import machine
from service.config.machine import CALL_BYTES, kept_below, least, memory_bytes
from service.config.schema import Worker

GIB = 2**30
ROOT = Path(__file__).parents[2]
MANY = 10**9


@pytest.mark.parametrize(
    ("files", "memory", "processes", "calls", "bound_by"),
    [
        (20_000, 24 * GIB, 1, 5_000, "worker.concurrency"),
        (1_024, 24 * GIB, 1, 512, "half of 1,024 open files"),
        (1_024, 24 * GIB, 4, 512, "half of 1,024 open files"),
        (20_000, GIB, 1, 1_024, "half of 1,024 MiB of memory"),
        (20_000, GIB, 4, 256, "half of 1,024 MiB of memory"),
        (20_000, CALL_BYTES, 1, 1, "half of 0 MiB of memory"),
    ],
)
def test_the_least_of_setting_open_files_and_memory_binds(
    files: int, memory: int, processes: int, calls: int, bound_by: str
) -> None:
    found = least(Worker(processes=processes), files, memory)

    assert (found.calls, found.bound_by) == (calls, bound_by)


def test_a_smaller_setting_holds_on_any_machine() -> None:
    assert least(Worker(concurrency=5), MANY, MANY * GIB).calls == 5


def in_a_process(soft: int, hard: int) -> list[int]:
    """Calls before and after the limit is raised, and the soft limit then."""
    program = (
        "import resource\n"
        "from service.config.machine import call_budget, raise_open_files\n"
        "from service.config.schema import Worker\n"
        "before = call_budget(Worker()).calls\n"
        "raise_open_files(Worker())\n"
        "print(before, call_budget(Worker()).calls, *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    limited = ["prlimit", f"--nofile={soft}:{hard}", sys.executable, "-c", program]
    done = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, check=True)
    return [int(each) for each in done.stdout.split()]


def test_the_soft_limit_of_open_files_is_raised_as_far_as_the_calls_need_it() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    before, after, soft, still_hard = in_a_process(256, hard)

    assert soft == min(hard, 10_000)
    assert before == after == least(Worker(), soft, memory_bytes()).calls
    assert still_hard == hard


@pytest.mark.parametrize(("calls", "below"), [(24, 500), (512, 256), (5_000, 0)])
def test_half_of_the_files_beside_those_of_calls_are_for_connections_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, calls: int, below: int
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1_024, 4_096))

    assert kept_below(Worker(concurrency=calls)) == below


def test_a_low_hard_limit_lowers_the_calls() -> None:
    assert in_a_process(200, 300) == [150, 150, 300, 300]


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/", {"memory.max": "1073741824\n"}, GIB),
        ("0::/a/b", {"a/memory.max": "1073741824\n", "a/b/memory.max": "max\n"}, GIB),
        ("0::/of/the/host", {"memory.max": "1073741824\n"}, GIB),
        ("4:cpu,memory:/a", {"memory/a/memory.limit_in_bytes": "1073741824\n"}, GIB),
        ("4:cpu:/a\n0::/", {"memory.max": "max\n"}, None),
    ],
)
def test_the_limit_of_a_cgroup_counts_for_the_memory(
    own: str,
    limits: dict[str, str],
    expected: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(own + "\n")
    monkeypatch.setattr(machine, "OWN_CGROUPS", tmp_path / "nothing")
    physical = memory_bytes()
    monkeypatch.setattr(machine, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)

    assert memory_bytes() == (expected or physical)
