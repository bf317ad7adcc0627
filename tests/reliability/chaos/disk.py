"""A small disk that can be filled; only root may have one.

It is mounted in a mount namespace of its own, which a child process holds open: when that dies,
by whatever cause, the disk is gone and nothing stays mounted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from devstack.kinds import Durability, Kind
from devstack.nursery import Nursery

DISK_BYTES = 4 << 20
BALLAST = "ballast"
MOUNT = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && exec sleep infinity'
MOUNT_PATIENCE = 3.0
STEP = 0.02


class SmallDisk:
    """A folder, on a disk of its own where that could be had.

    `namespace` is the process in whose mount namespace it is mounted, None for an ordinary folder.
    """

    def __init__(self, folder: Path, namespace: int | None) -> None:
        self.is_small = namespace is not None
        self._folder = folder
        self._namespace = namespace

    def fill(self) -> None:
        """Leave no free block."""
        assert self.is_small, "this would fill the machine's own disk"
        with self._ballast.open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def under(self, kind: Kind, *more: str) -> Kind:
        """Make a kind of server whose data lies here, with `more` arguments."""

        def arguments(port: int, _: Path, durability: Durability) -> list[str]:
            return [*kind.arguments(port, self._folder, durability), *more]

        if self._namespace is None:
            return replace(kind, arguments=arguments)
        program = kind.find()
        enter = ["--mount", f"--target={self._namespace}", str(program.path)]
        return replace(
            kind,
            find=lambda: replace(program, path=Path(_program("nsenter"))),
            arguments=lambda *given: [*enter, *arguments(*given)],
        )

    @property
    def _ballast(self) -> Path:
        return Path(f"/proc/{self._namespace}/root{self._folder}") / BALLAST


@contextmanager
def small_disk(folder: Path, nursery: Nursery) -> Iterator[SmallDisk]:
    """Make a small disk at `folder` for the length of a `with` block, if this user may."""
    folder.mkdir()
    command = [_program("unshare"), "--mount", _program("sh"), "-c", MOUNT, "sh"]
    holder = nursery.start([*command, str(DISK_BYTES), str(folder)], Path(os.devnull), {})
    try:
        yield SmallDisk(folder, holder.pid if _mounted(folder, holder) else None)
    finally:
        holder.kill()
        holder.wait()


def _mounted(folder: Path, holder: subprocess.Popen[bytes]) -> bool:
    inside = Path(f"/proc/{holder.pid}/root{folder}")
    deadline = time.monotonic() + MOUNT_PATIENCE
    while holder.poll() is None and time.monotonic() < deadline:
        try:
            if inside.stat().st_dev != folder.stat().st_dev:
                return True
        except OSError:
            return False  # it has just ended, or may not be looked into
        time.sleep(STEP)
    return False


def _program(name: str) -> str:
    """Where a program is; one that is not installed is `false`, which fails as such."""
    return shutil.which(name) or shutil.which("false") or "/bin/false"
