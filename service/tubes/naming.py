"""What a malformed body calls its courier and its number: the words that people search for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tracking.errors import MalformedJob
from tracking.request import SLUG_MOST, Slug

Resolve = Callable[[str], tuple[Slug, str]]
"""Looks a slug or an alias up: the canonical slug and the characters that its numbers keep.

Raises MalformedJob (`unknown_slug`)."""

NUMBER_MOST = 100
NUMBER_END = 10**NUMBER_MOST
"""Python does not write out integers of thousands of digits."""


def named_in(read: Any, resolve: Resolve) -> tuple[str | None, str | None]:
    """Find slug and number, unchecked but for aliases and length; None for what is not there.

    `read` is any JSON value.
    """
    job = read[1] if isinstance(read, list) and len(read) > 1 else read
    payload = job.get("payload") if isinstance(job, dict) else None
    if not isinstance(payload, dict):
        return None, None
    slug, number = payload.get("slug"), payload.get("number")
    if isinstance(slug, str) and len(slug) <= SLUG_MOST:
        with suppress(MalformedJob):
            slug, _ = resolve(slug)
    # A number without quotes is the commonest slip.
    if type(number) is int and abs(number) < NUMBER_END:
        number = str(number)
    return (
        slug[:SLUG_MOST] if isinstance(slug, str) else None,
        number[:NUMBER_MOST] if isinstance(number, str) else None,
    )
