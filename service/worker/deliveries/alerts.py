"""Alerts: people hear once that something is in trouble, and once that it is well again.

=================== ============================================ ==================================
in trouble          when                                         who hears
=================== ============================================ ==================================
a service           health.py says so                            its account
an account          deliveries beyond its bounds are given up    the account
a courier's         refused, and its line stands                 operators
credentials
requests            some died in the last day                    operators
=================== ============================================ ==================================

What people were alerted of stands in the collection `alerts` (health.Alert). Each step is a
compare-and-set there; only then its mail is written down under a name of its own (mail.py) and its
event made, and only then it is noted as said. A process that vanishes in between leaves that to the
next look, and a repetition makes nothing twice. Without a server for mails, or an address, the log
and the events say it alone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pymongo import DESCENDING
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from service.observe.events import Event
from service.observe.log import emit
from service.worker.deliveries.alert_texts import Matter, raised, resolved, site_of
from service.worker.deliveries.health import Alert, Step, Trouble, alert_in, step_of, trouble_of
from service.worker.deliveries.keeper import COUNTS, TOO_MANY
from service.worker.deliveries.mail import About, MailText, write_mail
from service.worker.deliveries.service import NOT_DELETED, ServiceState
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Collections, Document

PERIOD_SECONDS = 60.0
"""A look asks three questions, also where there is no service; a mail takes as long anyway, and of
what fails for minutes at the least people hear."""

DEAD_FOR = dt.timedelta(days=1)
"""Requests die one by one: people hear of the first, and by the digest of how many."""

GIVEN_UP_FOR = dt.timedelta(hours=1)

_IN_TROUBLE: Document = {
    **NOT_DELETED,
    "$or": [{"health.failing_since": {"$ne": None}}, {"state": ServiceState.DISABLED.value}],
}


class TellServices(Protocol):
    """Makes an event of an account's service, for its other services."""

    async def __call__(
        self, event: EventName, service: Document, change: str, at: dt.datetime
    ) -> None:
        """Make it, once for each `change`. Raises ResultsDown."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Who hears by mail. `by_mail` False: nobody, as no server is set."""

    by_mail: bool = False
    operators: str = ""


Found = dict[str, tuple[Matter, Trouble]]
"""What is in trouble, by the ids of alerts."""


class Alerts:
    """Looks for trouble, and has people hear of it."""

    def __init__(
        self,
        store: Store,
        addresses: Addresses,
        refused: Callable[[], Awaitable[Sequence[str]]],
        tell: TellServices,
    ) -> None:
        """`refused` lists the couriers that refused our credentials; raises LimitsDown."""
        self._store = store
        self._addresses = addresses
        self._refused = refused
        self._tell = tell

    async def look(self, now: dt.datetime | None = None) -> None:
        """Take every step that is due. Raises LimitsDown, ResultsDown."""
        now = now or dt.datetime.now(dt.UTC)
        slugs = await self._refused()
        store = self._store
        alerts, found = await store.in_background(read_alerts, store, now)
        for slug in slugs:
            name = f"credentials:{slug}"
            since = alerts[name].since if name in alerts else now
            found[name] = Matter("credentials", slug), Trouble(since, "auth_failed", grave=True)
        for name in [*found, *(alerts.keys() - found.keys())]:
            trouble = found[name][1] if name in found else None
            alert = alerts.get(name)
            if step := None if alert and alert.resolved_at else step_of(alert, trouble, now):
                alert = await store.in_background(
                    take_step, store.alerts, step, changed(name, step, alert, found.get(name), now)
                )
            if alert and (alert.resolved_at or not alert.told):
                await self._say(alert)

    async def _say(self, alert: Alert) -> None:
        """Say what an alert has not said yet, then note that it did."""
        store = self._store
        matter, service = await store.in_background(matter_of, store, alert)
        if matter is not None:
            over = alert.resolved_at is not None
            event = Event.ALERT_OVER if over else Event.ALERTED
            about = f"{matter.kind} {matter.name}"
            emit(event, alert=about, account=matter.account, why=alert.why)
            if service is not None and alert.grave:
                which = EventName.SERVICE_RECOVERED if over else EventName.SERVICE_DISABLED
                await self._tell(which, service, mail_name(alert), alert.resolved_at or alert.since)
            text = (
                resolved(matter, alert.since)
                if over
                else raised(matter, alert.since, alert.why, grave=alert.grave)
            )
            if self._addresses.by_mail:
                await store.in_background(self._write_mail, alert, matter, text)
        await store.in_background(note_said, store.alerts, alert)

    def _write_mail(self, alert: Alert, matter: Matter, text: MailText) -> None:
        to = self._addresses.operators
        if matter.account:
            to = address_of(self._store, matter.account)
        if to:
            about = About(alert.id, matter.account)
            write_mail(self._store.mails, mail_name(alert), to, text, about)


def changed(
    name: str,
    step: Step,
    alert: Alert | None,
    found: tuple[Matter, Trouble] | None,
    now: dt.datetime,
) -> Alert:
    """Make what an alert is after a step."""
    if alert is None or step in {Step.RAISE, Step.ESCALATE}:
        if found is None:
            raise LookupError(f"nothing is wrong with {name}")
        matter, trouble = found
        episode = alert.episode if alert else secrets.token_hex(16)
        return Alert(name, matter.account, episode, trouble.since, trouble.why, trouble.grave)
    if step is Step.RESOLVE:
        return dataclasses.replace(alert, resolved_at=now)
    return dataclasses.replace(alert, well_since=now if step is Step.REST else None)


def mail_name(alert: Alert) -> str:
    """Name the mail, and the event, that an alert is to make next: the same for each repetition."""
    if alert.resolved_at:
        return f"{alert.episode}.resolved"
    return f"{alert.episode}.{alert.why}.{alert.since:%Y%m%d%H%M%S}"


def take_step(alerts: Collection[Document], step: Step, to: Alert) -> Alert | None:
    """Change an alert as long as it is that of this episode; None: somebody else was faster.

    Raises PyMongoError.
    """
    document = dataclasses.asdict(to)
    name = document.pop("id")
    if step is Step.RAISE:
        try:
            alerts.insert_one({"_id": name, **document})
        except DuplicateKeyError:
            return None
        return to
    still = {"_id": name, "episode": to.episode, "resolved_at": None}
    if step is Step.ESCALATE:
        still["since"] = {"$ne": to.since}
    return to if alerts.update_one(still, {"$set": document}).modified_count else None


def note_said(alerts: Collection[Document], alert: Alert) -> None:
    """Note that an alert has said what it is about; a resolved one goes. Raises PyMongoError."""
    this = {"_id": alert.id, "episode": alert.episode}
    if alert.resolved_at:
        alerts.delete_one({**this, "resolved_at": alert.resolved_at})
    else:
        alerts.update_one(
            {**this, "since": alert.since, "why": alert.why}, {"$set": {"told": True}}
        )


def read_alerts(store: Collections, now: dt.datetime) -> tuple[dict[str, Alert], Found]:
    """Read all alerts by id, and what is in trouble by what MongoDB has. Raises PyMongoError."""
    kept = {each["_id"]: each for each in store.alerts.find({}, {"services": 0})}
    alerts = {name: alert_in(each) for name, each in kept.items() if "episode" in each}
    given_up = kept.get(COUNTS, {}).get("given_up") or {}
    return alerts, _in_trouble(store, alerts, given_up, now)


def _in_trouble(
    store: Collections, alerts: Mapping[str, Alert], given_up: Document, now: dt.datetime
) -> Found:
    found: Found = {}
    for each in store.services.find(_IN_TROUBLE):
        if trouble := trouble_of(each):
            found[f"service:{each['_id']}"] = _matter_of_service(each), trouble
    dead = store.dead.find_one(
        {"at": {"$gt": now - DEAD_FOR}}, {"at": 1}, sort=[("at", DESCENDING)]
    )
    if dead:
        since = alerts["dead"].since if "dead" in alerts else dead["at"]
        found["dead"] = Matter("dead", "requests"), Trouble(since, "dead", grave=True)
    for account, last in given_up.items():
        if last["at"] > now - GIVEN_UP_FOR:
            name = f"given_up:{account}"
            since = alerts[name].since if name in alerts else last["at"]
            matter = Matter("given_up", account, account)
            found[name] = matter, Trouble(since, TOO_MANY, grave=True)
    return found


def matter_of(store: Collections, alert: Alert) -> tuple[Matter | None, Document | None]:
    """Find what an alert is about, and its service; None of one that is not there any more."""
    kind, _, name = alert.id.partition(":")
    if kind != "service":
        return Matter(kind, name or "requests", alert.account), None
    found = store.services.find_one({**NOT_DELETED, "_id": name})
    return (_matter_of_service(found), found) if found else (None, None)


def address_of(store: Collections, account: str) -> str:
    """Find the address that an account wants its alerts at, "" for none. Raises PyMongoError."""
    found: dict[str, Any] = store.accounts.find_one({"_id": account}, {"alerts": 1}) or {}
    return found.get("alerts") or ""


def _matter_of_service(document: Document) -> Matter:
    site = site_of(document["destination"])
    return Matter("service", document["name"], document["account"], site)
