"""How long replies are waited for, to be read in one go."""

from __future__ import annotations

from service.tubes.connection import TOGETHER_SECONDS

LATE_ACKNOWLEDGEMENT_SECONDS = 0.04
"""How long Linux waits with the acknowledgement of small packets that nobody reads."""


def test_replies_are_read_long_before_their_acknowledgement_would_be_late() -> None:
    """Until it comes the server sends no more than its congestion window holds.

    What that costs `benchmarks/scenarios/puts.py` shows: two thirds of the puts.
    """
    assert TOGETHER_SECONDS <= LATE_ACKNOWLEDGEMENT_SECONDS / 10
