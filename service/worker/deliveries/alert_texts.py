"""The texts of alerts and digests: plain, and each says what, why, and what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service import PROGRAM
from service.worker.deliveries.health import ALERT_AFTER, DISABLE_AFTER, JOINS_FOR, DisabledWhy
from service.worker.deliveries.mail import MailText


@dataclass(frozen=True, slots=True)
class Matter:
    """What an alert is about: its `kind` and its `name`; `detail` is a line for people.

    `account` "": it is for operators.
    """

    kind: str
    name: str
    account: str = ""
    detail: str = ""


_WHY = {
    DisabledWhy.GONE.value: "it answered 410 Gone, which says that nobody listens there any more",
    DisabledWhy.FAILING.value: f"every attempt failed for {DISABLE_AFTER.days} days",
}


def raised(matter: Matter, since: dt.datetime, why: str, *, grave: bool) -> MailText:
    """Write the mail of an alert that is raised, or became grave."""
    at = moment(since)
    match matter.kind:
        case "service":
            return _disabled(matter, at, why) if grave else _failing(matter, at)
        case "credentials":
            return MailText(
                f"Credentials of {matter.name} are refused",
                f"The courier {matter.name} has refused our credentials since {at}. Its requests"
                f" wait.\n\nPut new ones into [couriers.{matter.name}] and start the workers"
                f" again; {PROGRAM} doctor names them.\n",
            )
        case "dead":
            return MailText(
                "Requests are dead",
                f"Requests got no answer after all attempts, the first at {at}.\n\n"
                f"{PROGRAM} dead list shows them, with their reasons.\n",
            )
    return MailText(
        f"Deliveries of {matter.account} are given up",
        f"More deliveries of the account {matter.account} are open or held than [webhooks] allows."
        f" Since {at} the oldest ones are given up, those held first.\n\n"
        f"They are dead with the reason {why}: GET /v1/deliveries?state=dead\n",
    )


def _disabled(matter: Matter, at: str, why: str) -> MailText:
    return MailText(
        f"Webhook service {matter.name} is disabled",
        f"The service {matter.name} of the account {matter.account} was disabled at {at}, because"
        f" {_WHY.get(why, why)}.\n\nDestination: {matter.detail}\n\nWhat is to be delivered to it"
        f" is held, and new deliveries join for {JOINS_FOR.days} days. Nothing is lost.\n\nOnce the"
        f" destination works: {PROGRAM} service resume {matter.name}\nor PATCH"
        f' /v1/services/{matter.name} with {{"state": "active"}}. All that is held is delivered'
        " then.\n",
    )


def _failing(matter: Matter, at: str) -> MailText:
    return MailText(
        f"Webhook service {matter.name} fails",
        f"All attempts to deliver to the service {matter.name} of the account {matter.account} have"
        f" failed since {at}.\n\nDestination: {matter.detail}\n\nThey are repeated, at growing"
        f" distances. After {DISABLE_AFTER.days} days of failures the service is disabled.\n\n"
        f"What each attempt was answered: GET /v1/deliveries?service={matter.name}\n",
    )


def resolved(matter: Matter, since: dt.datetime) -> MailText:
    """Write the mail of an alert that is resolved."""
    at, minutes = moment(since), round(ALERT_AFTER.total_seconds() / 60)
    match matter.kind:
        case "service":
            return MailText(
                f"Webhook service {matter.name} is well again",
                f"The service {matter.name} of the account {matter.account} takes deliveries again:"
                f" none has failed by its fault for {minutes} minutes. It was in trouble since"
                f" {at}.\n",
            )
        case "credentials":
            return MailText(
                f"Credentials of {matter.name} are taken again",
                f"The courier {matter.name} takes our credentials again. They were refused since"
                f" {at}.\n",
            )
        case "dead":
            return MailText(
                "No more requests are dead",
                f"No request died for a day. There were some since {at}.\n",
            )
    return MailText(
        f"No more deliveries of {matter.account} are given up",
        f"The account {matter.account} has as much open and held as it may. Deliveries were given"
        f" up since {at}.\n",
    )


def digest(
    account: str, day: dt.datetime, services: Sequence[tuple[str, Mapping[str, int]]]
) -> MailText:
    """Write what became of the deliveries of an account's services on a day with dead ones."""
    lines = [
        f"  {name}: {counts.get('dead', 0)} dead, {counts.get('delivered', 0)} delivered"
        for name, counts in services
    ]
    dead = sum(counts.get("dead", 0) for _, counts in services)
    return MailText(
        f"{dead} webhook deliveries were not delivered on {day:%Y-%m-%d}",
        f"Of the account {account}, by service:\n\n" + "\n".join(lines) + "\n\n"
        "Their attempts are used up, or their days are over. With their reasons:"
        " GET /v1/deliveries?state=dead\nTo deliver them again: POST /v1/deliveries/resend\n",
    )


def digest_of_dead(day: dt.datetime, found: Iterable[tuple[str, str, int]]) -> MailText:
    """Write how many requests died on a day, by courier and reason."""
    listed = list(found)
    lines = [f"  {slug or '(no courier)'}: {count} {reason}" for slug, reason, count in listed]
    total = sum(count for _, _, count in listed)
    return MailText(
        f"{total} requests died on {day:%Y-%m-%d}",
        "By courier and reason:\n\n" + "\n".join(lines) + "\n\n"
        f"{PROGRAM} dead list shows them; dead kick tries them again.\n",
    )


def site_of(destination: str) -> str:
    """Name where a service delivers to; the rest of its address may be a secret."""
    return "/".join(destination.split("/", 3)[:3])


def moment(at: dt.datetime) -> str:
    """Write a moment for people."""
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
