"""Where a process spends its time: py-spy's samples of its stacks, summed up by part of the worker.

A sample belongs to the innermost frame that is not the standard library's: what asyncio writes for
aiohttp is aiohttp's. Sampled is the thread that holds the interpreter: neither waiting nor kernel.
"""

from __future__ import annotations

import signal
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

RATE = 400
"""Samples a second. The process goes on meanwhile: one that is stopped for each of them is found in
system calls more often than it is there, and hardly ever in its other threads."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "HTTP: aiohttp and its socket": ("aiohttp/", "yarl/", "multidict/"),
    "asking couriers, reading answers": ("couriers/",),
    "results: documents, driver": ("service/results/", "pymongo/", "bson/"),
    "limits: scripts, client, permits": ("limits/", "redis/"),
    "jobs: reserving, reading, deleting": ("service/tubes/", "greenstalk.py"),
    "flow from step to step": ("service/flow/", "service/wiring/", "tracking/"),
    "log": ("service/observe/",),
}
"""What the names of each part's files begin with: folders of packages, or of this repository."""

LOOP = "the event loop's own"

_PACKAGES = "/site-packages/"
_TRACER = Path(sysconfig.get_path("scripts")) / "py-spy"


class NotSampled(Exception):
    """The samples could not be taken; the message says why."""


@contextmanager
def sampling(pid: int, file: Path) -> Iterator[None]:
    """Sample a process during a `with` block; writes folded stacks. Raises NotSampled."""
    options = ["--rate", str(RATE), "--nonblocking", "--gil", "--full-filenames", "--format", "raw"]
    command = [str(_TRACER), "record", "--pid", str(pid), *options, "--output", str(file)]
    if not _TRACER.exists():
        raise NotSampled("py-spy is not installed (requirements-dev.txt)")
    tracer = subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with tracer:
        # Its first line says that it samples; there is none where it may not.
        if not (tracer.stdout and tracer.stdout.readline()):
            said = tracer.stderr.read() if tracer.stderr else ""
            raise NotSampled(f"py-spy may not look into the worker: {said.partition(chr(10))[0]}")
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()


def shares(folded: str, home: Path) -> dict[str, float]:
    """Sum up folded stacks, of a program whose sources lie in `home`: each part's share of 1.

    A line is "frame;frame;… count", the outermost first, a frame "name (file:line)".
    """
    counted: Counter[str] = Counter()
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        counted[part_of(stack, home)] += int(count)
    return {part: count / counted.total() for part, count in counted.most_common()}


def part_of(stack: str, home: Path) -> str:
    """Tell which part a stack belongs to."""
    for frame in reversed(stack.split(";")):
        name = _name_of(frame.rpartition(" (")[2].rpartition(":")[0], home)
        for part, beginnings in PARTS.items():
            if name.startswith(beginnings):
                return part
    return LOOP


def _name_of(file: str, home: Path) -> str:
    """Name a file from the folder of packages on, or from ours; "" for the standard library's."""
    if _PACKAGES in file:
        return file.rpartition(_PACKAGES)[2]
    return file.removeprefix(f"{home}/") if file.startswith(f"{home}/") else ""
