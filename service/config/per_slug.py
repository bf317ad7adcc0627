"""What holds for one courier."""

from __future__ import annotations

import msgspec

from service.config.schema import Config, Limits


def limits_for(config: Config, slug: str) -> Limits:
    """Lay `[limits.slugs.<slug>]` over `[limits]`: the limits of one courier."""
    own = config.limits.slugs.get(slug)
    if own is None:
        return config.limits
    differing = {
        name: value for name, value in msgspec.structs.asdict(own).items() if value is not None
    }
    return msgspec.structs.replace(config.limits, **differing)
