"""A fault run kills and counts its own processes only, however long it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from chaos.workers import MARK, Worker

from devstack.nursery import Nursery

SLEEP = [sys.executable, "-c", "print(flush=True); input()"]


def test_an_id_that_belongs_to_somebody_else_by_now_is_left_alone(tmp_path: Path) -> None:
    ours = {**os.environ, MARK: f"{tmp_path / 'worker-1'}"}
    others = {**os.environ, MARK: f"{tmp_path / 'worker-2'}"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        Nursery() as nursery,
        subprocess.Popen(SLEEP, env=ours, **pipes) as own,  # type: ignore[call-overload]
        subprocess.Popen(SLEEP, env=others, **pipes) as other,  # type: ignore[call-overload]
    ):
        for process in (own, other):
            process.stdout.readline()  # it runs now, and not this program's copy
        lines = [{"event": "process started", "pid": each.pid} for each in (own, other)]
        (tmp_path / "worker-1.1.log").write_text("\n".join(map(json.dumps, lines)))
        worker = Worker("worker-1", tmp_path, nursery, {})
        worker.starts = 1

        assert worker.children == [own.pid]
        worker.end()

        assert own.wait(5.0) == -9
        assert other.poll() is None
        other.communicate(b"\n", timeout=5.0)
