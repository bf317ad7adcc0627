"""`delivery`: what was sent to services, listed, shown with its attempts, resent and cancelled."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from service.config import schema
from service.console import settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    add_account,
    add_actions,
    add_delivery_filter,
    add_json,
    add_yes,
    from_one_on,
    named,
)
from service.console.output import agreed, moment, note, say, say_json, summed, table
from service.operator import audit, connections, deliveries, delivery_acts, services
from tracking.errors import NotDone

if TYPE_CHECKING:
    from service.operator.deliveries import Delivery, Which
    from service.operator.delivery_acts import Acted

ANSWER_SHOWN = 60
EVENTS = (
    *("parcel.changed", "parcel.delivered", "parcel.exception", "parcel.expired"),
    *("operation.ended", "service.disabled", "service.recovered", "relay.request"),
)


def delivery_arguments(parser: Parser) -> None:
    """Add the actions of `delivery`."""
    actions = {
        "list": ("List deliveries, those of the newest events first.", _list),
        "show": ("Show all of a delivery: its body and its attempts.", _show),
        "resend": ("Send deliveries again, now; by a filter those that are dead or held.", _resend),
        "cancel": ("Send deliveries no more; by a filter those that are open or held.", _cancel),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        if action != "list":
            many = None if action == "show" else "*"
            each.add_argument("ids" if many else "id", nargs=many, metavar="ID")
        if action != "show":
            _add_filter(each)
        if action == "list":
            text = "at most this many; default: 50"
            each.add_argument("--limit", type=from_one_on, default=50, metavar="NUMBER", help=text)
        if action in {"resend", "cancel"}:
            which = "dead or held" if action == "resend" else "open or held"
            each.add_argument("--all", action="store_true", help=f"all that are {which}")
            add_yes(each)
        add_account(each)
        add_json(each)


def _add_filter(parser: Parser) -> None:
    add_delivery_filter(parser)
    parser.add_argument("--event", choices=EVENTS, metavar="EVENT", help="only of this event")
    text = "only about this parcel, as SLUG:NUMBER"
    parser.add_argument("--parcel", type=named, metavar="PARCEL", help=text)


def _list(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    found = deliveries.deliveries_of(stores, _which(options, config, stores), options.limit)
    names = deliveries.names_of_services(stores, found)
    if options.json:
        for each in found:
            say_json(deliveries.members(each, names[each.service]))
        return Exit.DONE
    if not found:
        say("no delivery fits this")
        return Exit.DONE
    headers = ("id", "at", "service", "event", "parcel", "state", "made", "why", "next")
    table(headers, [_row(each, names[each.service]) for each in found])
    return Exit.DONE


def _row(each: Delivery, service: str) -> tuple[str, ...]:
    is_open = each.state is deliveries.DeliveryState.OPEN
    return (
        each.id,
        moment(each.made_at),
        service,
        each.type.value,
        each.parcel or each.operation or "-",
        each.state.value,
        str(each.made),
        each.why or "-",
        moment(each.next_at) if is_open else "-",
    )


def _show(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    try:
        told = deliveries.show(stores, options.account, options.id)
    except deliveries.UnknownDelivery as error:
        say(f"{error}; `delivery list` shows them")
        return Exit.NEGATIVE
    if options.json:
        say_json(told)
        return Exit.DONE
    body, attempts = told.pop("body"), told.pop("attempts")
    for name, value in told.items():
        shown = moment(value) if isinstance(value, dt.datetime) else value
        say(f"{name:<10} {'' if shown is None else shown}".rstrip())
    say(f"{'body':<10} {'it is not kept any more' if body is None else body}")
    say_attempts(attempts)
    return Exit.DONE


def say_attempts(attempts: list[dict[str, Any]]) -> None:
    """Print the attempts of a delivery below all else that there is to say of it."""
    say("")
    if not attempts:
        say("no attempt was made, or none is kept any more")
        return
    table(("attempt", "at", "took", "status", "failure", "answer"), list(map(_attempt, attempts)))


def _attempt(each: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(each["number"]),
        moment(each["at"]),
        f"{each['ms']} ms",
        str(each["status"] or "-"),
        each["failure"] or "-",
        each["body"][:ANSWER_SHOWN],
    )


def _resend(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    acts = delivery_acts.resend, delivery_acts.resend_all
    return _act(options, services.Services(config, stores), "resent", acts, deliveries.RESENDS)


def _cancel(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    acts = delivery_acts.cancel, delivery_acts.cancel_all
    return _act(options, services.Services(config, stores), "cancelled", acts, deliveries.CANCELS)


def _act(
    options: Options,
    of: services.Services,
    verb: str,
    acts: tuple[Callable[..., object], Callable[..., Acted]],
    states: Sequence[deliveries.DeliveryState],
) -> int:
    """Do an act on each that is named, or on all that a filter means in one of these states."""
    on_one, on_all = acts
    if _are_named(options):
        return each_of(options, verb, partial(on_one, of))
    which = _which(options, of.config, of.stores)
    count = deliveries.count_meant(of.stores, which, states)
    return _on_all(options, verb, count, partial(on_all, of, audit.Operator(), which, math.inf))


def _are_named(options: Options) -> bool:
    given = (options.service, options.state, options.event, options.parcel)
    is_filter = any((*given, options.since, options.until))
    if bool(options.ids) + is_filter + options.all != 1:
        raise UsageError("say which: ids, or --service, --state, --since …, or --all by itself")
    return bool(options.ids)


def _on_all(options: Options, verb: str, count: int, act: Callable[[], Acted]) -> int:
    """Do an act on all that a filter means, once somebody agreed to so many."""
    if not count:
        note("no delivery fits this; `delivery list` shows them")
        return Exit.NEGATIVE
    many = f"over {count - 1:,}" if count == deliveries.COUNTED_MOST else f"{count:,}"
    asked = {"resent": "Resend", "cancelled": "Cancel"}[verb]
    if not agreed(f"{asked} {many} deliveries?", yes=options.yes):
        return Exit.NEGATIVE
    came = act()
    for identity, why in came.failures.items():
        note(f"{identity}: {why}")
    return summed(verb, came.done, came.failed, as_json=options.json)


def each_of(options: Options, verb: str, act: Callable[..., object]) -> int:
    """Do an act on each that is named; 1 where not all of it was done."""
    done, failed = 0, 0
    for identity in options.ids:
        try:
            act(audit.Operator(), options.account, identity)
        except NotDone as error:
            note(f"{identity}: {error}")
            failed += 1
        else:
            done += 1
    return summed(verb, done, failed, as_json=options.json)


def _which(options: Options, config: schema.Config, stores: connections.Collections) -> Which:
    event = deliveries.EventName(options.event) if options.event else None
    return which_of(options, config, stores, event=event, parcel=options.parcel)


def which_of(
    options: Options, config: schema.Config, stores: connections.Collections, **more: Any
) -> Which:
    """Read a filter, with `more` of it; raises NotDone for a service that is not there."""
    now, of = dt.datetime.now(dt.UTC), services.Services(config, stores)

    def ago(seconds: float | None) -> dt.datetime | None:
        return now - dt.timedelta(seconds=seconds) if seconds else None

    return deliveries.Which(
        options.account,
        options.service and of.named(options.account, options.service).id,
        deliveries.DeliveryState(options.state) if options.state else None,
        since=ago(options.since),
        until=ago(options.until),
        **more,
    )
