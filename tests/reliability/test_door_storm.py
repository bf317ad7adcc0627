"""Everything that a door answered 202 gets into a tube, whatever is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

from door_storm import Scale, storm

SCALE = Scale(posts=250, rate=100.0, door_kills=1, server_kills=1, binlog_ends=1, down=0.2)


async def test_every_202_is_in_a_tube_at_last_under_its_id(disk: Path) -> None:
    verdict = await storm(SCALE, disk)

    assert verdict.wrong == []
    assert verdict.taken > SCALE.posts / 2
    assert verdict.spooled > 0
