"""Private temporary folders that are removed, also after their owner was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "devstack-"
DISK = Path("/var/tmp")  # noqa: S108 - private folders are made in it
"""It must survive a reboot, so it is on a disk."""

LOCK = "owner.lock"


@contextmanager
def private_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder that only this process uses and that is removed at the end.

    It lies in `parent`, by default where temporary files do, which may be in memory.

    Folders whose owner was killed are recognised by their free lock and removed first: a mongod
    leaves hundreds of megabytes.
    """
    parent = parent or Path(tempfile.gettempdir())
    _remove_orphans(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    # Locked before it gets its name, so that nobody ever sees a live folder with a free lock.
    unnamed = folder / f"{LOCK}.new"
    with unnamed.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(folder / LOCK)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if path.stat().st_uid != os.getuid():
                continue
            with path.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:
            continue  # its owner lives, or somebody else has just removed it
