"""Status codes without a meaning, for `info` and `doctor`: which courier's table has a gap."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from service.cli.output import moment
from service.client.connections import collections_of
from service.config.schema import Config
from service.preflight.judgement import Finding, Grade
from service.results.code_counts import listed
from tracking.errors import ResultsDown

SHOWN_MOST = 10
HEADERS = ("courier", "unknown code", "times", "first seen", "last seen")
_NAMED_MOST = 3


@dataclass(frozen=True, slots=True)
class UnknownCode:
    """A code that no table of a courier's module holds, and how often an answer had it."""

    slug: str
    code: str
    count: int
    first_seen: dt.datetime
    last_seen: dt.datetime


async def unknown_codes(config: Config) -> Sequence[UnknownCode] | None:
    """Read all, the most frequent first. None when MongoDB does not answer: then go on without."""
    try:
        return await asyncio.to_thread(_read, config)
    except ResultsDown:
        return None


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


def _read(config: Config) -> list[UnknownCode]:
    with collections_of(config) as collections:
        return [UnknownCode(**each) for each in listed(collections.unknown_codes)]
