"""Worlds in this process, with as little of it for the collector of garbage as in one of their own.

It looks through everything after each world: late in a long run that took ten times as long. Once
for a file: to freeze all that there is costs as much as a short test.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _only_the_worlds_are_collected() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()
