"""A small disk that can be filled; only root may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_BYTES = 4 << 20
BALLAST = "ballast"


class SmallDisk:
    """A folder, on a disk of its own where that could be had."""

    def __init__(self, folder: Path, *, is_small: bool) -> None:
        self.folder = folder
        self.is_small = is_small

    def fill(self) -> None:
        """Leave no free block."""
        assert self.is_small, "this would fill the machine's own disk"
        with (self.folder / BALLAST).open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Give the space back."""
        (self.folder / BALLAST).unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount a small disk on `folder` for the length of a `with` block, if this user may."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        is_small = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_small = False
    try:
        yield SmallDisk(folder, is_small=is_small)
    finally:
        if is_small:
            subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)
