"""What holds for one courier."""

from __future__ import annotations

import msgspec

from service.config.schema import Config, Limits


def silence_seconds(config: Config) -> float:
    """How long a worker may hang: the least by which any courier's lease outlasts its call.

    A worker that hangs for longer could have a call open whose slot is already given to another.
    """
    tables = [config.limits, *(limits_for(config, slug) for slug in config.limits.slugs)]
    return min(limits.lease_seconds - limits.call_timeout_seconds for limits in tables)


def limits_for(config: Config, slug: str) -> Limits:
    """Lay `[limits.slugs.<slug>]` over `[limits]`: the limits of one courier."""
    own = config.limits.slugs.get(slug)
    if own is None:
        return config.limits
    differing = {
        name: value for name, value in msgspec.structs.asdict(own).items() if value is not None
    }
    return msgspec.structs.replace(config.limits, **differing)
