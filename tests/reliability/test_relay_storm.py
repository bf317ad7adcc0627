"""Everything that a relay answered 202 arrives byte for byte, whatever is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from relay_storm import Scale, storm

SCALE = Scale(posts=1_500, rate=150.0, doors=2, tubes=2, stores=1, workers=1, down=0.4)

pytestmark = pytest.mark.prove


async def test_every_202_arrives_and_never_again_whatever_is_killed(
    disk: Path, measured: dict[str, list[str]]
) -> None:
    verdict = await storm(SCALE, disk)

    assert verdict.wrong == []
    assert verdict.taken > SCALE.posts / 2
    assert verdict.spooled > 0
    measured |= {f"relay storm, {name}": [value] for name, value in verdict.table.items()}
