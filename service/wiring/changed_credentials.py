"""A worker that starts with other credentials ends the pauses that the old ones caused."""

from __future__ import annotations

import functools
from collections.abc import Callable

from couriers.http.fingerprint import fingerprint_of, is_of
from couriers.registry import Registry
from limits.braking import Brakes
from service.observe.events import Event
from service.observe.log import emit
from tracking.line import Line, courier_line, slug_of


def marks_of(registry: Registry) -> Callable[[Line], str]:
    """Make what marks a refusal with the credentials that were refused; each is hashed once."""
    return functools.cache(lambda line: fingerprint_of(registry.settings(slug_of(line))))


async def resume_where_changed(brakes: Brakes, registry: Registry) -> None:
    """Let the couriers go on whose credentials were refused and are others now. Raises LimitsDown.

    A pause by hand stays.
    """
    lines = [courier_line(slug) for slug in registry.slugs]
    for line, mark in (await brakes.marks(lines)).items():
        if not is_of(mark, registry.settings(slug_of(line))):
            await brakes.resume(line, by_hand=False)
            emit(Event.RESUMED, slug=slug_of(line))
