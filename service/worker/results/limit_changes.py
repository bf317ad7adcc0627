"""The limits that operators set over config.toml while workers run, as MongoDB holds them.

The collection `limits` holds one document, so that a change is there whole or not at all:

======== ==========================================================================================
member   is
======== ==========================================================================================
_id      "limits"
revision how many changes there were, those of services among them: Redis has it in
         `tracking:rules`, and scripts that grant calls refuse a worker that knows an older one
slugs    slug → name of a limit → what holds for it; null: no such quota, whatever config.toml says
======== ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
from pymongo import ReturnDocument
from pymongo.collection import Collection

from limits.rules import Changes, Own
from service.config.schema import SlugLimits
from service.observe.log import emit_unexpected
from service.worker.results.account_quotas import calls_of, read_quotas
from service.worker.results.database import Document

SETTABLE = ("per_second", "concurrent", "per_hour", "per_day", "together")
"""What may change while workers run; all other limits are of the file."""

QUOTAS = ("per_hour", "per_day")
"""Of these: which a courier may also be without."""

_ID = {"_id": "limits"}


def read_changes(limits: Collection[Document]) -> Changes:
    """Read the limits that are set. An entry that cannot hold is left out: a person wrote it."""
    return _changes_in(limits.find_one(_ID) or {})


def read_rules(limits: Collection[Document], accounts: Collection[Document]) -> Changes:
    """Read all that goes by the revision: the limits, and after them the accounts' quotas."""
    changes, quotas = read_changes(limits), read_quotas(accounts)
    return replace(changes, quotas=calls_of(quotas))


def set_limits(limits: Collection[Document], slug: str, values: Own) -> Changes:
    """Set limits of one courier, and leave its others; `values` as `checked`."""
    return _change(
        limits, {"$set": {f"slugs.{slug}.{name}": each for name, each in values.items()}}
    )


def reset_limits(limits: Collection[Document], slug: str, names: Iterable[str] = ()) -> Changes:
    """Let config.toml hold again for limits of one courier; without names for all of them."""
    paths = [f"slugs.{slug}.{name}" for name in names] or [f"slugs.{slug}"]
    return _change(limits, {"$unset": dict.fromkeys(paths, "")})


def note_change(limits: Collection[Document]) -> int:
    """Count a change of rules that stand elsewhere: those of services. Returns the revision."""
    return _change(limits, {}).revision


def checked(values: Own) -> Own:
    """Check limits that somebody wants to set. Raises ValueError, worded for that person."""
    for name, value in values.items():
        if name not in SETTABLE:
            raise ValueError(f"{name!r} is no limit to be set: {', '.join(SETTABLE)} are")
        if value is None and name not in QUOTAS:
            raise ValueError(f"{name} cannot be none: only {' and '.join(QUOTAS)} can")
    try:
        msgspec.convert({name: each for name, each in values.items() if each}, SlugLimits)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    if wrong := [name for name, each in values.items() if each == 0]:
        raise ValueError(f"{wrong[0]} must be 1 or more; `pause` lets nobody call at all")
    return values


def _change(limits: Collection[Document], update: Document) -> Changes:
    document = limits.find_one_and_update(
        _ID, {"$inc": {"revision": 1}, **update}, upsert=True, return_document=ReturnDocument.AFTER
    )
    return _changes_in(document or {})


def read_revision(limits: Collection[Document]) -> int:
    """Read how many changes there were."""
    return int((limits.find_one(_ID, {"revision": 1}) or {}).get("revision", 0))


def _changes_in(document: Document) -> Changes:
    slugs: dict[str, Own] = {}
    for slug, own in (document.get("slugs") or {}).items():
        try:
            if own:
                slugs[slug] = checked(own)
        except (AttributeError, TypeError, ValueError) as error:
            emit_unexpected(error, slug=slug)
    return Changes(document.get("revision", 0), slugs)
