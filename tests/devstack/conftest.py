"""The stack's own tests start and kill servers, so they never use configured ones."""

from __future__ import annotations

import pytest

from devstack.kinds import BEANSTALKD, MONGODB, REDIS


@pytest.fixture(autouse=True)
def _no_configured_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (BEANSTALKD, REDIS, MONGODB):
        monkeypatch.delenv(kind.variable, raising=False)
