"""One short fault run, always the same faults: judged for safety; its times are only told.

How soon everything goes on depends on the machine: `make chaos` judges that. Its couriers answer
for one number in a call, so that it ends within a minute and a half: `make chaos` has others too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.report import rows, text
from chaos.run import run
from chaos.scale import COURIERS, Scale

ONE_A_CALL = tuple(courier for courier in COURIERS if courier.together == 1)
SCALE = replace(Scale.short(seed=166), couriers=ONE_A_CALL)
WANTED = frozenset(
    {
        *("lost", "repeated"),
        *("server is away", "server is back", "process died", "job is malformed"),
        *("answer lost", "answer cannot be stored", "document is refused"),
    }
)


@pytest.mark.prove
def test_whatever_breaks_nothing_is_lost_and_every_limit_holds(
    measured: dict[str, list[str]],
) -> None:
    finished = run(SCALE, WANTED, print)

    unsafe = [str(breach) for breach in finished.breaches if not breach.is_late]
    assert unsafe == [], text(finished.evidence, finished.breaches)
    measured |= {name: [figure] for name, figure in rows(finished.evidence, finished.breaches)}
    measured["later than promised"] = [str(breach) for breach in finished.breaches] or ["nothing"]
