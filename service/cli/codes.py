"""Status codes without a meaning, for `info` and `doctor`: which courier's table has a gap."""

from __future__ import annotations

from collections.abc import Sequence

from service.cli.output import moment
from service.client.health import Finding, Grade
from service.client.look import UnknownCode

SHOWN_MOST = 10
HEADERS = ("courier", "unknown code", "times", "first seen", "last seen")
_NAMED_MOST = 3


def code_rows(codes: Sequence[UnknownCode]) -> list[list[str]]:
    """Word the most frequent codes as rows, and how many there are besides."""
    rows = [
        [each.slug, each.code, str(each.count), moment(each.first_seen), moment(each.last_seen)]
        for each in codes[:SHOWN_MOST]
    ]
    more = len(codes) - len(rows)
    return [*rows, [f"and {more} more: --json", "", "", "", ""]] if more else rows


def code_findings(codes: Sequence[UnknownCode] | None) -> list[Finding]:
    """Judge them for `doctor`, courier by courier: such events count as their words say."""
    slugs = sorted({each.slug for each in codes or ()})
    return [_finding(slug, [each for each in codes or () if each.slug == slug]) for slug in slugs]


def _finding(slug: str, codes: Sequence[UnknownCode]) -> Finding:
    named = ", ".join(f"{each.code} ({each.count} times)" for each in codes[:_NAMED_MOST])
    more = f" and {len(codes) - _NAMED_MOST} more" if len(codes) > _NAMED_MOST else ""
    since = min(each.first_seen for each in codes)
    what = f"gives status codes that are in no table since {moment(since)}: {named}{more}"
    fix = "Add them to its module (docs/couriers.md); until then their words decide."
    return Finding(slug, Grade.UNSURE, what, fix)
