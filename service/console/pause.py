"""`pause` and `resume`: nobody calls a courier until a named time, or until it is resumed."""

from __future__ import annotations

from service import PROGRAM
from service.console import settings
from service.console.arguments import Exit, Options, Parser, add_json, lasting
from service.console.output import note, say, say_json, span
from service.operator import attention, audit, catalogue, pause
from tracking import errors


def pause_arguments(parser: Parser) -> None:
    """Add the arguments of `pause`."""
    parser.add_argument("slug", metavar="SLUG", help="the courier")
    text = "so long, like 90s, 15m, 2h or 3d; default: until it is resumed"
    parser.add_argument("--for", dest="lasts", type=lasting, metavar="DURATION", help=text)
    text = "the reason, which `info` shows"
    parser.add_argument("--why", "--reason", default="", metavar="TEXT", help=text)
    add_json(parser)


def resume_arguments(parser: Parser) -> None:
    """Add the arguments of `resume`."""
    parser.add_argument("slug", metavar="SLUG", help="the courier")
    add_json(parser)


def run_pause(options: Options) -> int:
    """Pause; a pause by hand that is there already is replaced."""
    config = settings.loaded(options).config
    slug, _ = catalogue.Catalogue(config).resolve(options.slug)
    act = pause.pausing(config, slug, options.lasts, options.why)
    _, unrecorded = audit.recorded_where_possible(config, *act)
    _note_unrecorded(unrecorded)
    if options.json:
        say_json({"slug": slug, "paused": True, "seconds": options.lasts, "why": options.why})
        return Exit.DONE
    lasts = f"for {span(options.lasts)}" if options.lasts else "until it is resumed"
    say(f"{slug} is paused {lasts}; calls that run are not cut off, and requests wait")
    say(f"`{PROGRAM} resume {slug}` lets it go on")
    return Exit.DONE


def run_resume(options: Options) -> int:
    """Resume, whether somebody paused it or its calls failed; 1 when nothing had stopped it."""
    config = settings.loaded(options).config
    couriers = catalogue.Catalogue(config)
    slug, _ = couriers.resolve(options.slug)
    ended, unrecorded = audit.recorded_where_possible(config, *pause.resuming(config, slug))
    _note_unrecorded(unrecorded)
    if options.json:
        say_json({"slug": slug, "by_hand": ended.by_hand, "why": ended.why})
    else:
        say(_worded(slug, ended))
        if ended.why == attention.NO_CREDENTIALS and (missing := couriers.lacking(slug)):
            say(f"it stops again with its next call: {missing}; set them, then restart the workers")
    return Exit.DONE if ended else Exit.NEGATIVE


def _worded(slug: str, ended: pause.Resumed) -> str:
    if not ended:
        return f"{slug} was not paused; `{PROGRAM} info` names what binds it"
    whys = ("by hand" if ended.by_hand else "", ended.why)
    return f"{slug} goes on within seconds; it was paused: {', '.join(filter(None, whys))}"


def _note_unrecorded(why: errors.ResultsDown | None) -> None:
    """Say that `audit` has no whole record of what was done, where it has none."""
    if why is not None:
        note(f"it is done; audit has no whole record of it: {why}")
