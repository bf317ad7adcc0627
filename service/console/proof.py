"""`proof`: what was measured of calls, against what is allowed, and that no request is missing."""

from __future__ import annotations

import asyncio
from typing import Any

from service.console import settings
from service.console.arguments import Exit, Options, Parser, add_json
from service.console.output import moment, say, say_json, span, table
from service.operator import catalogue, connections, proof

_CALLS = ("courier", "worst second", "allowed", "peak in flight", "allowed", "starts", "violations")


def proof_arguments(parser: Parser) -> None:
    """Add the arguments of `proof`."""
    add_json(parser)


def run_proof(options: Options) -> int:
    """Show it, with --json signed; 1 where a limit was broken, or a request is missing."""
    config = settings.loaded(options).config
    found = asyncio.run(proof.proof_of(config, catalogue.Catalogue(config).slugs))
    if options.json:
        with connections.collections_of(config) as stores:
            say_json(proof.signed(stores, proof.members(found)))
    else:
        _show(found)
    return Exit.DONE if found.kept else Exit.NEGATIVE


def _figures(each: Any) -> tuple[int, ...]:
    calls = (each.per_second, each.rate, each.at_once, each.concurrent)
    return (*calls, each.starts, each.broken)


def _show(found: proof.Proof) -> None:
    told = found.measured
    say(f"calls since {moment(found.measured_since)}, measured for {span(told.seconds)}")
    rows = [(slug, *map("{:,}".format, _figures(each))) for slug, each in found.couriers]
    table(_CALLS, rows)
    if found.judged or found.violations:
        say(f"violations: {found.violations:,}, judged for {span(told.judged_seconds)}")
    else:
        say("violations: nothing was judged yet")
    say("")
    _show_requests(found)
    say(f"waiting longest: {span(found.oldest_seconds) or 'nobody waits'}")
    if found.quotas:
        say("")
        rows = [(e.slug, e.per, f"{e.used:,}", f"{e.allowed:,}") for e in found.quotas]
        table(("quota of", "per", "used", "allowed"), rows)


def _show_requests(found: proof.Proof) -> None:
    counted = found.balance
    if found.counted_since is None:
        say("requests are not counted yet: no worker of this version has run")
        return
    say(f"requests with an id since {moment(found.counted_since)}")
    ended = ", ".join(f"{count:,} {state}" for state, count in counted.ended.items())
    say(f"{counted.before:,} open then + {counted.admitted:,} admitted = {ended} ended")
    say(f"  + {counted.open:,} open; missing: {counted.missing:,}")
    refused = ", ".join(f"{count:,} {why}" for why, count in counted.refused.items())
    say(f"refused, and never admitted: {refused}")
