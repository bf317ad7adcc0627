"""Fills the disk that a spool lies on, by batches of one size, and empties the spool again.

It is run on a small file system of its own, see `test_spool`.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from service.operator.spool import Spool
from tracking.errors import SpoolDown

BODY = b"x" * 300
TOGETHER = 400


def filled(spool: Spool, batch: int) -> str:
    """Add until the spool takes no more; tells why."""
    try:
        while True:
            spool.add([BODY] * batch)
    except SpoolDown as error:
        return f"{error}"


def emptied(spool: Spool) -> int:
    """Delete the oldest together, as a door does, until there is none; tells how many."""
    deleted = 0
    while found := spool.oldest(TOGETHER):
        spool.delete([each.id for each in found])
        deleted += len(found)
    return deleted


def main(folder: Path, batch: int) -> None:
    spool = Spool(folder / "spool.sqlite", 64)
    refusals = {filled(spool, batch)}
    with suppress(SpoolDown):  # smaller ones may fit still
        spool.add([BODY])
    held, deleted = spool.count(), emptied(spool)
    refusals.add(filled(spool, batch))
    again = emptied(spool)
    told = {"refusals": sorted(refusals), "held": held, "deleted": deleted, "again": again}
    print(json.dumps(told))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
