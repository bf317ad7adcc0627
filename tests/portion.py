"""How much a run tries of what has no end, and whether it judges how fast all went.

=============== ==================== ========================== ================
run by          how much             drawn                      times are judged
=============== ==================== ========================== ================
`make test`     one portion          the same ones each time    no
`make prove`    two portions         the same ones each time    no
`make mutants`  ten portions         the same ones each time    yes (TIMES)
`make chaos`    as much as asked for others each time (FRESH)   yes (TIMES)
`make fuzz`     as much as asked for others each time (FRESH)   no
=============== ==================== ========================== ================
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

PORTION = int(os.environ.get("PORTION", "1"))
FRESH = "FRESH" in os.environ
TIMES = "TIMES" in os.environ
ASKED_FOR = int(os.environ.get("EXAMPLES", "0"))

# A busy machine is no fault: no deadline, no complaint about slow examples.
settings.register_profile(
    "fixed", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("fresh", deadline=None, suppress_health_check=list(HealthCheck))

PROFILE = "fresh" if FRESH else "fixed"


def examples(ordinary: int) -> settings:
    """Settings for one property: `ordinary` examples a portion, unless a number was asked for.

    What fails in `make fuzz` is kept under .hypothesis and tried first the next time.
    """
    return settings(max_examples=ASKED_FOR or ordinary * PORTION)


def daily(these: Collection[Any], *of_all: Any) -> list[Any]:
    """Parameters of which `make test` tries `these`, and `make prove` all others."""
    return [pytest.param(each, marks=() if each in these else pytest.mark.prove) for each in of_all]
