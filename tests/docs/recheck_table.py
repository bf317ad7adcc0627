"""The tables of re-checks, made out of the defaults of `[recheck]`.

`python tests/docs/recheck_table.py` writes them; test_recheck_table.py compares. Another page gets
one when it is added to PAGES and holds the two marks.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from service.config.schema import Config  # noqa: E402 - found by the path above
from service.worker.results.recheck_policy import SLOWER, hours_of  # noqa: E402 - as above
from tracking.checkpoint import Tag  # noqa: E402 - as above

BEGIN, END = "<!-- table of re-checks -->\n", "<!-- end of the table -->\n"
SETTINGS = {
    Tag.PENDING: "pending_hours",
    Tag.INFO_RECEIVED: "info_received_hours",
    Tag.IN_TRANSIT: "in_transit_hours",
    Tag.OUT_FOR_DELIVERY: "out_for_delivery_hours",
    Tag.ATTEMPT_FAIL: "attempt_fail_hours",
    Tag.AVAILABLE_FOR_PICKUP: "available_for_pickup_hours",
    Tag.EXCEPTION: "exception_hours",
}


def table(config: Config) -> str:
    """How often a parcel is asked about again, and how many so that a courier can follow them."""
    rate = config.limits.per_second
    rows = [
        (
            "tag",
            "hours until the next check",
            "setting",
            f"parcels that {rate} calls a second follow",
        ),
        ("---",) * 4,
    ]
    for tag, setting in SETTINGS.items():
        hours, told = _paces(tag, config)
        follow = ", ".join(f"{rate * 3600 * each:,.0f}" for each in hours)
        rows.append((f"`{tag}`", told, f"`{setting}`", follow))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


PAGES = MappingProxyType({"docs/runbook.md": table})


def _paces(tag: Tag, config: Config) -> tuple[list[float], str]:
    """List the hours that matter for the capacity, and tell all of them."""
    nothing = timedelta(0)
    if tag is Tag.PENDING:
        waits, known = [], nothing
        while len(waits) < 2 or waits[-1] != waits[-2]:
            waits.append(hours_of(tag, known, nothing, config.recheck))
            known += timedelta(hours=waits[-1])
        *first, last = waits[:-1]
        return [last], f"{', '.join(f'{each:g}' for each in first)}, then {last:g} each time"
    hours = [hours_of(tag, nothing, nothing, config.recheck)]
    told = f"{hours[0]:g}"
    if tag is Tag.IN_TRANSIT:
        for least, _ in reversed(SLOWER):
            hours.append(hours_of(tag, least, least, config.recheck))
            told += f"; {hours[-1]:g} once nothing has changed for {least.days} days"
    return hours, told


def made(page: str, text: str) -> str:
    """Put the table between the marks of a page. Raises ValueError for a mark that is not there."""
    before, mark, rest = text.partition(BEGIN)
    _, closing, after = rest.partition(END)
    if not mark or not closing:
        raise ValueError(f"{page} lacks the marks {BEGIN.strip()} … {END.strip()}")
    return f"{before}{BEGIN}{PAGES[page](Config())}{END}{after}"


def main() -> None:
    """Write the table into the pages."""
    for page in PAGES:
        path = ROOT / page
        path.write_text(made(page, path.read_text()))


if __name__ == "__main__":
    main()
