"""`forget` deletes all that is stored about parcels; `purge` deletes what was kept long enough."""

from __future__ import annotations

from collections.abc import Iterator

from service.console import drawing, rows, settings
from service.console.arguments import Exit, Options, Parser, UsageError, add_json, add_parcels
from service.console.output import agreed, note, say, say_json
from service.operator import catalogue, forget, purge
from tracking.errors import MalformedJob
from tracking.request import Number, Slug


def forget_arguments(parser: Parser) -> None:
    """Add the arguments of `forget`."""
    add_parcels(parser)
    add_json(parser)


def purge_arguments(parser: Parser) -> None:
    """Add the arguments of `purge`."""
    text = "count it only, and remove nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    add_json(parser)


def run_forget(options: Options) -> int:
    """Forget parcels; 1 when nothing was known, or not all of it could be deleted."""
    config = settings.loaded(options).config
    named = list(dict.fromkeys(_named(options, catalogue.Catalogue(config))))
    which = f"{len(named)} parcels" if len(named) > 1 else " ".join(named[0])
    question = f"Forget {which}: end what is asked about it and delete all that is stored?"
    if not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    found = forget.forget(config, named)
    for each in found:
        if options.json:
            say_json(_members(each))
        else:
            say(_worded(each))
        for why in each.failed:
            note(f"{each.parcel.slug} {each.parcel.number}: {why}")
    if not options.json:
        say("")
        say("not reached:")
        for what in forget.NOT_REACHED:
            say(f"  {what}")
    failed = any(each.failed for each in found)
    return Exit.NEGATIVE if failed or not any(each.is_known for each in found) else Exit.DONE


def _named(options: Options, couriers: catalogue.Catalogue) -> Iterator[tuple[Slug, Number]]:
    if not options.csv and len(options.slug_and_numbers) < (1 if options.slug else 2):
        raise UsageError("say which: SLUG NUMBER..., or --csv FILE")
    for row in rows.read_rows(options):
        try:
            yield couriers.parcel(row.texts.get("slug", ""), row.texts.get("number", ""))
        except MalformedJob as error:
            raise UsageError(f"{row.where}: {error.detail}; nothing was forgotten") from error


def _members(found: forget.Found) -> dict[str, object]:
    named = {"slug": found.parcel.slug, "number": found.parcel.number, "known": found.is_known}
    return named | found.counts | {"failed": found.failed, "not_reached": forget.NOT_REACHED}


def _worded(found: forget.Found) -> str:
    name = f"{found.parcel.slug} {found.parcel.number}"
    if not found.is_known:
        return f"nothing is known about {name}"
    counted = ", ".join(f"{kind} {count}" for kind, count in found.counts.items() if count)
    return f"forgot {name}: {counted or 'nothing yet'}"


def run_purge(options: Options) -> int:
    """Purge what is old, or count it; 1 when a server could not be asked."""
    config, is_dry = settings.loaded(options).config, options.dry_run
    with drawing.bars() as progress:
        purged = purge.purge(config, progress, dry=is_dry)
    if options.json:
        counts = {**purged.counts, "buried_jobs": purged.buried_jobs, "failed": purged.failed}
        say_json({"dry_run": is_dry, **counts})
    else:
        word = "old" if is_dry else "purged"
        for kind, count in purged.counts.items():
            say(f"{kind:<12} {count:>9,} {word}")
        what = "in all; those that are old would go" if is_dry else "deleted"
        say(f"{'buried jobs':<12} {purged.buried_jobs:>9,} {what}")
    for why in purged.failed:
        note(why)
    return Exit.NEGATIVE if purged.failed else Exit.DONE
