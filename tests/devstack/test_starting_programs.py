"""Programs are started while other threads do what they like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.nursery import Nursery


class Changing(dict[str, str]):
    """The environment as another thread sees it that reads while pytest names its next test."""

    def __iter__(self) -> Iterator[str]:
        raise KeyError("PYTEST_CURRENT_TEST")

    keys = __iter__  # type: ignore[assignment]


def test_a_program_has_our_environment_and_its_own_though_a_thread_changes_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "1")
    monkeypatch.setattr(os, "environ", Changing(os.environ))
    log = tmp_path / "log"

    with Nursery() as nursery:
        started = nursery.start(["/usr/bin/env"], log, {"ITS_OWN": "two words"})
        assert started.wait(10) == 0

    assert {"OURS=1", "ITS_OWN=two words"} <= set(log.read_text().splitlines())
