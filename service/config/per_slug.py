"""What holds for one courier."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from service.config.schema import Config, Limits, Recheck, Section

S = TypeVar("S", bound=Section)


def silence_seconds(config: Config) -> float:
    """How long a worker may hang: the least by which any courier's lease outlasts its call.

    A worker that hangs for longer could have a call open whose slot is already given to another.
    """
    tables = [config.limits, *(limits_for(config, slug) for slug in config.limits.slugs)]
    return min(limits.lease_seconds - limits.call_timeout_seconds for limits in tables)


def limits_for(config: Config, slug: str) -> Limits:
    """Lay `[limits.slugs.<slug>]` over `[limits]`: the limits of one courier."""
    return _laid_over(config.limits, config.limits.slugs.get(slug))


def recheck_for(config: Config, slug: str) -> Recheck:
    """Lay `[recheck.slugs.<slug>]` over `[recheck]`: the re-checks of one courier."""
    return _laid_over(config.recheck, config.recheck.slugs.get(slug))


def _laid_over(common: S, own: Section | None) -> S:
    differing = msgspec.structs.asdict(own) if own is not None else {}
    return msgspec.structs.replace(
        common, **{name: value for name, value in differing.items() if value is not None}
    )
