"""Whether the couriers that the configuration names exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from couriers.slugs import ALIASES, FEEDS, SLUGS
from service.config.paths import Path
from service.config.problems import Finding, shown
from service.config.schema import Config
from service.config.spelling import suggestion
from tracking.errors import MalformedJob
from tracking.request import parse_slug

_OWN_COURIER = 'for a courier of your own, set module = "json_feed" and base_url'


def unknown(config: Config, where_of: Callable[[Path], str]) -> Iterator[Finding]:
    """Every courier that is none: its settings or limits would go unnoticed."""
    for slug, courier in config.couriers.items():
        path: Path = ("couriers", slug)
        module = (*path, "module")
        if courier.module and courier.module not in FEEDS:
            choice = " or ".join(f'"{each}"' for each in sorted(FEEDS))
            fix = f"Write module = {choice}, or remove it."
            yield Finding(module, shown(courier.module), choice, fix)
        elif not _is_slug(slug):
            yield _no_slug(path)
        elif not courier.module and slug not in SLUGS and slug not in ALIASES:
            fix = suggestion(path, where_of(path), SLUGS, _list(SLUGS))
            yield _no_courier(path, f"{fix} F{_OWN_COURIER[1:]}.", (module,))
        if slug in ALIASES and ALIASES[slug] in config.couriers:
            fix = f"Put all its keys under [couriers.{ALIASES[slug]}]."
            yield Finding(path, "the same courier a second time", "one table for it", fix)
    known = SLUGS | {slug for slug, courier in config.couriers.items() if courier.module}
    limited = [("limits", "slugs", slug) for slug in config.limits.slugs]
    for path in limited + [("recheck", "slugs", slug) for slug in config.recheck.slugs]:
        slug = path[-1]
        if slug in ALIASES:
            fix = f"Write [{'.'.join((*path[:-1], ALIASES[slug]))}]."
            yield Finding(path, "an old name of a courier", "its slug", fix)
        elif not _is_slug(slug):
            yield _no_slug(path)
        elif slug not in known and slug not in config.couriers:
            other = f"{_list(known)} Or add [couriers.{slug}]: {_OWN_COURIER}."
            fix = suggestion(path, where_of(path), known, other)
            yield _no_courier(path, fix, (("couriers", slug),))


def _is_slug(text: str) -> bool:
    try:
        parse_slug(text)
    except MalformedJob:
        return False
    return True


def _no_slug(path: Path) -> Finding:
    fix = 'Write the slug as AfterShip spells it, like "royal-mail".'
    return Finding(path, shown(path[-1]), "a slug: a-z, 0-9, single hyphens", fix)


def _no_courier(path: Path, fix: str, reads: tuple[Path, ...]) -> Finding:
    return Finding(path, "a slug that no courier has", "the slug of a courier", fix, reads)


def _list(slugs: Collection[str]) -> str:
    return f"There are {', '.join(sorted(slugs))}."
