"""Tests of the flow look at its steps; what it logs meanwhile is written nowhere."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.observe import log
from service.observe.writer import lines

PATIENCE = 10.0


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines of the log so far."""
    file = tmp_path / "log"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made = lines("json", worker="here:1", out=descriptor)
    log.set_up("info", made)

    def read() -> list[dict[str, Any]]:
        assert made.out.flush(PATIENCE)
        return [json.loads(line) for line in file.read_text().splitlines()]

    yield read
    log.set_up("info", lines("json"))
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    made.out.flush(PATIENCE)
    os.close(descriptor)
