"""How many examples: the same few in every ordinary run, as many as asked for in a long one.

`make fuzz EXAMPLES=10000` sets FUZZ_EXAMPLES; then examples are new ones in each run, and one that
fails is kept under .hypothesis and tried first the next time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ASKED_FOR = int(os.environ.get("FUZZ_EXAMPLES", "0"))


def examples(ordinary: int) -> settings:
    """Settings for one property, `ordinary` examples unless more were asked for."""
    plain = settings(deadline=None, suppress_health_check=list(HealthCheck))
    if ASKED_FOR:
        return settings(plain, max_examples=ASKED_FOR)
    return settings(plain, max_examples=ordinary, derandomize=True, database=None)
