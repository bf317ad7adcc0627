"""The worker processes that live, worded for `info` and `check`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from service.cli.output import moment
from service.client.look import LIVES_SECONDS, LiveWorker

HEADERS = ("worker", "pid", "version", "since", "calls", "trouble")
NOBODY = (
    f"no worker lives: none has reported to this Redis for {LIVES_SECONDS:g} s. "
    "Start one with `python worker.py`, or look into its log"
)


def worker_rows(workers: Sequence[LiveWorker]) -> list[list[str]]:
    """Word each process as a row."""
    return [
        [each.host, str(each.pid), each.version, _since(each), str(each.calls), each.trouble]
        for each in workers
    ]


def worker_words(workers: Sequence[LiveWorker]) -> str:
    """Word all of them on one line."""
    if not workers:
        return NOBODY
    return "live workers: " + ", ".join(
        f"{host} {pid} ({version}, since {since}, {calls} call{'' if calls == '1' else 's'}"
        f"{trouble and f', {trouble}'})"
        for host, pid, version, since, calls, trouble in worker_rows(workers)
    )


def _since(worker: LiveWorker) -> str:
    return moment(dt.datetime.fromtimestamp(worker.since, dt.UTC))
