"""One bounded fault run: about a minute, every kind of fault, the same judge as `make chaos`."""

from __future__ import annotations

from chaos.report import text
from chaos.run import run
from chaos.scale import Scale

SCALE = Scale.short(seed=166)
WANTED = frozenset(
    {
        *("swept", "taken_over", "drains", "retried"),
        *("server is away", "server is back", "process died", "job is malformed"),
        "answer lost",
    }
)


def test_whatever_breaks_nothing_is_lost_and_every_limit_holds() -> None:
    finished = run(SCALE, WANTED, print)

    broken = [str(breach) for breach in finished.breaches]
    assert broken == [], text(finished.evidence, finished.breaches)
