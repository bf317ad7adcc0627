"""Memory that nobody needs any more goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

CODE = """
import sys
from service.config.machine import give_large_blocks_back

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

if sys.argv[1] == "given back":
    give_large_blocks_back()
one = bytearray(b"x" * (1 << 20))
del one  # that raises the bound from which on the C library gives back
before, large, small = resident(), [], []
for _ in range(200):
    large.append(bytearray(300_000))
    large[-1][::4096] = b"x" * 74  # a page is there once it is written
    small.append(bytearray(2_000))
del large
print(resident() - before)
"""


def kib_left(how: str) -> int:
    command = [sys.executable, "-c", CODE, how]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def test_large_bodies_are_given_back_though_small_blocks_stay_between_them() -> None:
    assert kib_left("given back") < kib_left("kept") / 4
