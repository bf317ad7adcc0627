"""Whether the couriers that have limits of their own exist; the registry checks the others."""

from __future__ import annotations

from collections.abc import Collection

from service.config.load import Loaded
from service.config.problem import ConfigError, Problem
from service.config.spelling import suggestion


def check_limited(loaded: Loaded, known: Collection[str]) -> None:
    """Raise ConfigError for every `[limits.slugs.<slug>]` without a courier.

    A slip there would leave the real courier without its limits, and nobody would notice.
    """
    problems = []
    for slug in loaded.config.limits.slugs:
        if slug in known:
            continue
        path = ("limits", "slugs", slug)
        inside = (where for key, where in loaded.origins.items() if key[:3] == path)
        where = next(inside, "")
        fix = suggestion(path, where, known)
        problems.append(
            Problem(".".join(path), where, "no such courier", "the slug of a courier", fix)
        )
    if problems:
        raise ConfigError(problems)
