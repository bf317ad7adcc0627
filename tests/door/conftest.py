"""A folder on a disk for the spool: /tmp may be memory, which a spool refuses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="door-", dir="/var/tmp") as folder:
        yield Path(folder)
