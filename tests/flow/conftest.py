"""The flow waits for nothing that a test would have to wait for as well."""

from __future__ import annotations

import pytest

from service.worker.flow import handle, receive, tasks


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "AFTER_DEFECT_SECONDS", 0.0)
    for name in ("ASK_AGAIN_SECONDS", "HELD_FIRST", "HELD_MOST"):
        monkeypatch.setattr(handle, name, 0.001)
    monkeypatch.setattr(tasks, "FIRST_WAIT_SECONDS", 0.001)
