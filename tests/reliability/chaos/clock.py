"""A wall clock that can be stepped, for one server only; needs a C compiler."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

from devstack.kinds import Kind

SOURCE = Path(__file__).with_name("clock_shim.c")
MICRO = 1_000_000
SHIFT = struct.Struct("=q")


class ClockUnavailable(Exception):
    """No clock can be stepped here; the message says why."""


class SteppedClock:
    """The wall clock of whatever `preloaded` starts. Raises ClockUnavailable."""

    def __init__(self, folder: Path) -> None:
        """Compile the library into `folder`."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise ClockUnavailable("there is no C compiler (cc)")
        self._library = folder / "clock_shim.so"
        self._shift = folder / "clock_shift"
        self._shift.write_bytes(SHIFT.pack(0))
        command = [compiler, "-shared", "-fPIC", "-o", str(self._library), str(SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClockUnavailable(f"cc failed: {done.stderr.strip()}")

    def preloaded(self, kind: Kind) -> Kind:
        """Make a kind of server that lives by this clock."""
        # A name and its folder: no path with a blank fits into LD_PRELOAD.
        library = {"LD_LIBRARY_PATH": str(self._library.parent), "LD_PRELOAD": self._library.name}
        added = {**library, "CLOCK_SHIFT": str(self._shift)}
        program = kind.find()
        environment = {**program.environment, **added}
        return replace(kind, find=lambda: replace(program, environment=environment))

    def step(self, seconds: float) -> None:
        """Set how far the clock is ahead from now on; negative for behind."""
        with self._shift.open("r+b") as file, mmap.mmap(file.fileno(), SHIFT.size) as shift:
            shift[:] = SHIFT.pack(round(seconds * MICRO))
