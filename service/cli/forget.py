"""`forget`: everything that is stored about parcels is deleted, and what comes of earlier calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from service.cli.exit_codes import Exit, UsageError
from service.cli.output import agreed, say, say_json
from service.cli.rows import rows
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.forget import NOT_REACHED, Found, forget
from tracking.errors import MalformedJob
from tracking.request import Number, Slug


def run(options: argparse.Namespace) -> int:
    """Forget; 1 when nothing was known, or not all of it could be deleted."""
    setting = loaded(options)
    named = list(dict.fromkeys(_named(options, Catalogue(setting.config))))
    which = f"{len(named)} parcels" if len(named) > 1 else " ".join(named[0])
    question = f"Forget {which}: end what is asked about it and delete all that is stored?"
    if not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    found = forget(setting.config, named)
    for each in found:
        if options.json:
            say_json(_json(each))
        else:
            say(_told(each))
        for why in each.failed:
            sys.stderr.write(f"worker.py: {each.parcel.slug} {each.parcel.number}: {why}\n")
    if not options.json:
        say("")
        say("not reached:")
        for what in NOT_REACHED:
            say(f"  {what}")
    failed = any(each.failed for each in found)
    return Exit.NEGATIVE if failed or not any(each.is_known for each in found) else Exit.DONE


def _named(options: argparse.Namespace, couriers: Catalogue) -> Iterator[tuple[Slug, Number]]:
    if not options.csv and len(options.slug_and_numbers) < (1 if options.slug else 2):
        raise UsageError("say which: SLUG NUMBER..., or --csv FILE")
    for row in rows(options):
        try:
            yield couriers.parcel(row.texts.get("slug", ""), row.texts.get("number", ""))
        except MalformedJob as error:
            raise UsageError(f"{row.where}: {error.detail}; nothing was forgotten") from error


def _json(found: Found) -> dict[str, object]:
    named = {"slug": found.parcel.slug, "number": found.parcel.number, "known": found.is_known}
    return named | found.counts | {"failed": found.failed, "not_reached": NOT_REACHED}


def _told(found: Found) -> str:
    name = f"{found.parcel.slug} {found.parcel.number}"
    if not found.is_known:
        return f"nothing is known about {name}"
    counted = ", ".join(f"{kind} {count}" for kind, count in found.counts.items() if count)
    return f"forgot {name}: {counted or 'nothing yet'}"
