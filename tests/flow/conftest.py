"""Tests of the flow look at its steps; what it logs meanwhile is written nowhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from service.observe import log
from service.observe.lines import lines


@pytest.fixture
def unread_log() -> Iterator[None]:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    log.set_up("error", lines("json", out=descriptor))
    yield
    log.set_up("info", lines("json"))
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    os.close(descriptor)
