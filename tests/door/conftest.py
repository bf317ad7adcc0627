"""A door that is asked over HTTP, with a server and without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from door_ground import NOWHERE, Client, serving

from devstack.servers import Server


@pytest.fixture
async def client(disk: Path, beanstalkd: Server) -> AsyncIterator[Client]:
    async with serving(disk / "spool.sqlite", beanstalkd) as made:
        yield made


@pytest.fixture
async def alone(disk: Path) -> AsyncIterator[Client]:
    """The door of a machine whose servers are away."""
    async with serving(disk / "spool.sqlite", NOWHERE) as made:
        yield made
