"""`doctor`: everything that a worker needs, explained, with what to do where it is not so."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from contextlib import aclosing

from service import PROGRAM
from service.config import schema
from service.console import rows, settings, wording
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_fields,
    add_json,
    named,
)
from service.console.output import moment, note, say, say_json, table, tell
from service.operator import catalogue, follow, health, limits, look, producer, put, trials
from tracking.errors import LimitsDown
from tracking.operation import State
from tracking.request import Slug

_MARKS = {"FINE": "ok", "UNREAD": "note", "UNSURE": "note", "FULL": "FULL", "AWAY": "AWAY"}
"""By the names of grades; every other one is BAD."""

CODES_NAMED_MOST = 3

TRY_SECONDS = 60.0
"""How long a trial is waited for."""


def doctor_arguments(parser: Parser) -> None:
    """Add the arguments of `doctor`."""
    text = "explain this courier alone: what it needs, its limits, how its line stands"
    parser.add_argument("slug", nargs="?", type=named, metavar="SLUG", help=text)
    text = "ask the courier about this number, by a worker and the limits, and note what came of it"
    parser.add_argument("--try", type=named, dest="number", metavar="NUMBER", help=text)
    add_fields(parser)
    add_json(parser)


def run_doctor(options: Options) -> int:
    """Explain everything; 1 when a worker could not start or could not be trusted."""
    setting = settings.loaded(options)
    config = setting.config
    known = catalogue.Catalogue(config)
    if options.number:
        return _try(config, known, options)
    if options.slug:
        return _explain(config, known, known.resolve(options.slug)[0], as_json=options.json)
    findings = [*health.findings_here(setting), *asyncio.run(_ask(config, known))]
    own, tried = limits.set_over_file(config), trials.trials_of(config)
    couriers = [
        health.courier_health(config, known, slug, own.get(slug), tried.get(slug))
        for slug in known.slugs
    ]
    findings += health.credential_findings(couriers)
    if options.json:
        say_json(
            {
                "findings": [dataclasses.asdict(each) for each in findings],
                "couriers": [dataclasses.asdict(each) for each in couriers],
            }
        )
    else:
        _print(findings, couriers, {*config.couriers, *own, *tried})
    if health.away(findings):
        return Exit.AWAY
    return Exit.NEGATIVE if health.worries_of(findings) else Exit.DONE


async def _ask(config: schema.Config, known: catalogue.Catalogue) -> list[health.Finding]:
    servers = await health.findings_of(config)
    servers += await health.key_findings(config, known.slugs)
    servers += await health.archive_findings(config, known.slugs)
    servers += await health.account_findings(config)
    servers += await health.guard_findings(config)
    for look_at in (health.refused_findings, health.relay_findings):
        servers += await asyncio.to_thread(look_at, config)
    return servers + _code_findings(await look.unknown_codes(config) or ())


def _explain(
    config: schema.Config, known: catalogue.Catalogue, slug: Slug, *, as_json: bool
) -> int:
    """Explain one courier; 1 when it cannot be asked, 3 when a server does not answer."""
    servers = health.worries_of(asyncio.run(health.findings_of(config)))
    own, tried = limits.set_over_file(config).get(slug), trials.trials_of(config).get(slug)
    courier = health.courier_health(config, known, slug, own, tried)
    findings = [*health.credential_findings([courier])]
    findings += [each for each in servers if each.grade is health.Grade.AWAY]
    if as_json:
        say_json(dataclasses.asdict(courier))
    else:
        say(f"{slug}: {known.name(slug)}, {courier.limits}")
        say(f"  {'credentials':<12} {_state(courier)}")
        say(f"  {'written by':<12} {courier.verified}")
        say(f"  {'tried live':<12} {_tried(courier)}")
        _print_missing(courier)
        _print_findings(findings)
    if health.away(servers):
        return Exit.AWAY
    return Exit.NEGATIVE if courier.missing or findings else Exit.DONE


def _try(config: schema.Config, known: catalogue.Catalogue, options: Options) -> int:
    """Ask a courier about one number; 0 when it has answered, 1 when not, 4 when it takes long."""
    if not options.slug:
        raise UsageError("say which courier: doctor SLUG --try NUMBER")
    slug = known.resolve(options.slug)[0]
    request = trials.request_of(known, slug, options.number, rows.fields_of(options))
    if lacking := known.lacking(slug):
        raise UsageError(f"nobody can ask it: {lacking}")
    workers = asyncio.run(look.live_workers(config))
    if workers is None:
        raise LimitsDown("Redis does not answer")
    if not workers:
        note(wording.NOBODY)
        return Exit.NEGATIVE
    with producer.Producer(config.beanstalkd.servers) as to:
        to.put([request.body], producer.PutOptions())
    return asyncio.run(_answer(config, request, as_json=options.json))


async def _answer(config: schema.Config, request: put.Sendable, *, as_json: bool) -> int:
    """Wait for what the courier answers, show and note it."""
    async with aclosing(follow.follow([request], config, TRY_SECONDS)) as events:
        async for event in events:
            match event:
                case follow.End(_, operation):
                    await asyncio.to_thread(trials.note_trial, config, request.slug, operation)
                    words = f"{operation['status']}  {wording.summary(operation)}".rstrip()
                    members = {"slug": request.slug, "number": request.number, **operation}
                    tell(members, f"{request.slug} {request.number}: {words}", as_json=as_json)
                    return Exit.DONE if operation["status"] == State.SUCCESS else Exit.NEGATIVE
                case follow.Binding(_, seen) if seen.bound_by:
                    note(wording.reason(seen))
    note(f"no answer in {TRY_SECONDS:g} s; it is asked all the same: show --id {request.id}")
    return Exit.WAITED


def _print(
    findings: Sequence[health.Finding], couriers: Sequence[health.CourierHealth], set_up: set[str]
) -> None:
    _print_findings(findings)
    shown = [each for each in couriers if each.slug in set_up or each.unused]
    rest = [each.slug for each in couriers if each not in shown]
    if shown:
        say("")
        headers = ("courier", "credentials", "limits", "tried live")
        table(headers, [(each.slug, _state(each), each.limits, _tried(each)) for each in shown])
        for courier in shown:
            _print_missing(courier)
    say("")
    say(f"nothing is set for {len(rest)} couriers; `{PROGRAM} doctor SLUG` says what one needs")


def _print_findings(findings: Sequence[health.Finding]) -> None:
    for each in findings:
        say(f"{_MARKS.get(each.grade.name, 'BAD'):<5} {each.server}: {each.what}")
        if each.fix:
            say(f"      -> {each.fix}")


def _print_missing(courier: health.CourierHealth) -> None:
    if courier.missing:
        variables = (health.environment_name(courier.slug, key) for key in courier.missing)
        say("")
        say(f"{courier.slug} needs {', '.join(variables)} (or these with _FILE)")
        say(f"      -> from {courier.credentials_from}")


def _tried(courier: health.CourierHealth) -> str:
    return f"{moment(courier.tried[0])}: {courier.tried[1]}" if courier.tried else "never"


def _state(courier: health.CourierHealth) -> str:
    words = []
    if courier.missing:
        words.append(f"missing: {', '.join(courier.missing)}")
    if courier.unused:
        words.append(f"not read: {', '.join(courier.unused)}")
    return "; ".join(words) or "complete"


def _code_findings(codes: Sequence[look.UnknownCode]) -> list[health.Finding]:
    """Judge status codes of no table, courier by courier: until then their words decide."""
    slugs = sorted({each.slug for each in codes})
    return [_code_finding(slug, [each for each in codes if each.slug == slug]) for slug in slugs]


def _code_finding(slug: str, codes: Sequence[look.UnknownCode]) -> health.Finding:
    shown, more = codes[:CODES_NAMED_MOST], len(codes) - CODES_NAMED_MOST
    named = ", ".join(f"{each.code} ({each.count} times)" for each in shown)
    rest = f" and {more} more" if more > 0 else ""
    since = min(each.first_seen for each in codes)
    what = f"gives status codes that are in no table since {moment(since)}: {named}{rest}"
    fix = "Add them to its module (docs/couriers.md); until then their words decide."
    return health.Finding(slug, health.Grade.UNSURE, what, fix)
