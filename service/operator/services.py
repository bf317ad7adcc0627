"""Services of accounts, made and changed by people and programs while workers run.

A service is stored in MongoDB first; then the revision of the rules is raised there and in Redis,
so that no step grants a call by what was known before (docs/decisions/0023). Where Redis is away
the change is stored all the same: every process reads services again within UNHEARD_SECONDS.

How many an account has, and made today, is kept by unique indexes: a service takes one of so many
places, and of two who take the same at once MongoDB refuses one, who takes the next.

Every act is recorded in `audit`; of headers and of the destination, which may hold secrets, it
says only that they were set.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError
from redis.asyncio import Redis

from limits.admin.pause import Pauses
from limits.admin.running import late_workers
from limits.rules import Rules
from limits.workers import LIVES_SECONDS
from service import PROGRAM
from service.config.schema import Config
from service.operator.accounts import insist_on
from service.operator.audit import Operator, recorded
from service.operator.connections import Collections, redis_of
from service.operator.producer import wake_fillers
from service.operator.relays import new_ingest, seal, test_event
from service.operator.service_wishes import (
    BadWish,
    Wishes,
    new_sealing_key,
    read_type,
    read_wishes,
)
from service.worker.deliveries.delivery import Delivery
from service.worker.deliveries.delivery import document_of as delivery_document
from service.worker.deliveries.keeper import CANCELLED_TOGETHER, cancel_some
from service.worker.deliveries.outbox import delivery_of
from service.worker.deliveries.secret_box import BadKeys, SecretBox, Unreadable
from service.worker.deliveries.service import (
    HOLDING,
    Handshake,
    Ingest,
    Service,
    ServiceState,
    ServiceType,
    document_of,
    new_service_id,
    service_in,
)
from service.worker.deliveries.signing import new_secret
from service.worker.deliveries.subscriptions import PERIOD_SECONDS
from service.worker.results.database import (
    Document,
    indexes_for,
    make_indexes,
    names_of,
)
from service.worker.results.document import stored_now
from service.worker.results.limit_changes import note_change
from tracking.errors import LimitsBroken, LimitsDown, NotDone, NotNow
from tracking.line import DELIVERY, Line
from tracking.request import NAME, Account

__all__ = ["BadWish", "Handshake", "Service", "ServiceType", "new_sealing_key"]

WAIT_SECONDS = 5.0
"""How long a maker waits until every process knows a service: a sweep, mostly."""

LOOK_SECONDS = 0.1

UNHEARD_SECONDS = 1.3 * PERIOD_SECONDS
"""Within which every process reads the services again by itself."""

CANCEL_SECONDS = 2.0
"""For deliveries of a deleted service; workers cancel what is left."""

SECRETS_MOST = 5
"""Secrets that sign at once: receivers compare each signature."""

TRIES = 1_000
"""Of a place, with others who make services of the account at the same time."""

DAY_SECONDS = 86_400.0


class UnknownService(NotDone):
    """The account has no service of this name."""


class ServiceConflict(NotDone):
    """The name is taken, or the account has as many services as it may."""


class MadeTooMany(NotNow):
    """The account made as many services today as it may."""


class NoKeys(NotDone):
    """Secrets cannot be encrypted here."""


@dataclass(frozen=True, slots=True)
class Made:
    """A service that was made or changed; `secret` is shown this once, where there is a new one.

    `hears_from`: from when on it hears of every change, None: from now on. `late`: processes that
    did not know it by then, "host pid"; those of a version before never will.
    """

    service: Service
    secret: str | None = None
    hears_from: dt.datetime | None = None
    late: tuple[str, ...] = ()


class Services:
    """The services of all accounts. Everything raises PyMongoError, and NotDone with the fix."""

    def __init__(self, config: Config, stores: Collections) -> None:
        self.config = config
        self.stores = stores

    def of(self, account: Account) -> list[Service]:
        """List an account's services by name."""
        found = self.stores.services.find(_live(account)).sort("name")
        return [service_in(each) for each in found]

    def named(self, account: Account, name: str) -> Service:
        """Find one service. Raises UnknownService."""
        found = self.stores.services.find_one(_live(account, name))
        if found is None:
            raise _unknown(name)
        return service_in(found)

    def make(self, who: Operator, account: Account, name: str, wishes: Wishes) -> Made:
        """Make a service; returns once every live process knows it, or after WAIT_SECONDS."""
        with self._recorded(who, "service make", account, name, wishes) as outcome:
            if not NAME.fullmatch(name):
                raise BadWish("name", "write 1 to 20 of a-z and 0-9")
            insist_on(self.stores, account)
            kind, box = read_type(wishes), _box_of(self.config)
            ingest_now = new_ingest(self.stores, kind, account, name)
            service = usual_service(self.config, account, name, kind, ingest_now)
            settable = {each: wish for each, wish in wishes.items() if each != "type"}
            wished, secret = read_wishes(self.config, service, settable, is_new=True), new_secret()
            ingest = seal(box, service.id, wished.pop("ingest", {}))
            document = document_of(service) | wished | _secrets([box.closed(secret, service.id)])
            document["ingest"] |= ingest
            make_indexes(self.stores.services, indexes_for(names_of(self.config))["services"])
            self._insert(account, document)
            outcome["service"] = document["_id"]
            try:
                insist_on(self.stores, account)
            except NotDone:
                self._end_all({"_id": document["_id"]})
                raise
            return self._announced(service_in(document), secret, waits=True)

    def change(self, who: Operator, account: Account, name: str, wishes: Wishes) -> Made:
        """Change what is named. A service that is made active goes on at once."""
        with self._recorded(who, "service change", account, name, wishes):
            service = self.named(account, name)
            wished = read_wishes(self.config, service, wishes)
            if not wished:
                return Made(service)
            if ingest := wished.pop("ingest", {}):
                sealed = seal(_box_of(self.config), service.id, ingest)
                wished |= {f"ingest.{each}": value for each, value in sealed.items()}
            goes_on = wished.get("state") == ServiceState.ACTIVE
            if goes_on and service.state in HOLDING:
                wished["health.holds"] = True  # the keeper may not have seen that it did
            changed = self.stores.services.find_one_and_update(
                _live(account, name) | {"_id": service.id},
                {"$set": wished},
                return_document=ReturnDocument.AFTER,
            )
            if changed is None:
                raise _unknown(name)
            return self._announced(service_in(changed), goes_on=goes_on)

    def delete(self, who: Operator, account: Account, name: str) -> None:
        """Delete a service; its deliveries that are open or held are cancelled."""
        with self._recorded(who, "service delete", account, name):
            service = self.named(account, name)
            if not self._end_all(_live(account, name) | {"_id": service.id}):
                raise _unknown(name)
            self._announced(service, goes_on=True)
            self._cancel([service])

    def end(self, who: Operator, account: Account) -> int:
        """Delete all services of an account; tells how many there were. None is no act."""
        services = self.of(account)
        if not services:
            return 0
        with self._recorded(who, "services end", account, "") as outcome:
            outcome["services"] = ended = self._end_all(_live(account))
            self._announced(services[0], goes_on=True)
            self._cancel(services)
        return ended

    def rotate(
        self, who: Operator, account: Account, name: str, keep_seconds: float = DAY_SECONDS
    ) -> Made:
        """Make a new secret; those of before sign beside it for so long."""
        with self._recorded(who, "service secret rotate", account, name):
            box, secret = _box_of(self.config), new_secret()
            while True:
                service, now = self.named(account, name), stored_now()
                ends_at = now + dt.timedelta(seconds=keep_seconds)
                before = [
                    {"text": each.text, "ends_at": min(each.ends_at or ends_at, ends_at)}
                    for each in service.secrets
                    if each.ends_at is None or each.ends_at > now
                ]
                if len(before) >= SECRETS_MOST:
                    why = f"{len(before)} secrets sign already: wait until the oldest has ended"
                    raise ServiceConflict(f"{why}, at {before[-1]['ends_at']:%H:%M} UTC")
                made = _secrets([box.closed(secret, service.id)])["secrets"]
                # Of two who rotate at once the second sees what the first has made.
                changed = self.stores.services.find_one_and_update(
                    _live(account, name) | {"_id": service.id, "secrets": _as_kept(service)},
                    {"$set": {"secrets": made + before}},
                    return_document=ReturnDocument.AFTER,
                )
                if changed is not None:
                    return self._announced(service_in(changed), secret)

    def test(self, who: Operator, account: Account, name: str) -> Delivery:
        """Have an event delivered that says of itself that it is a test."""
        with self._recorded(who, "service test", account, name) as outcome:
            service, now = self.named(account, name), stored_now()
            if not service.destination:
                raise ServiceConflict(f"{name} has no destination: nothing is delivered for it")
            change, written = test_event(self.config, service, now)
            made = delivery_of(change, written, service)
            self.stores.events.insert_one(written)
            self.stores.deliveries.insert_one(delivery_document(made))
            outcome["delivery"] = made.id
            wake_fillers(self.config.beanstalkd.servers, [made.line])
        return made

    def _recorded(
        self, who: Operator, act: str, account: Account, name: str, wishes: Wishes | None = None
    ) -> AbstractContextManager[Document]:
        target: Document = {"account": account, "service": name}
        if wishes is not None:
            target["set"] = sorted(wishes)
            told = wishes.keys() & {"state", "events", "type"}
            target |= {each: wishes[each] for each in sorted(told)}
        return recorded(self.stores.audit, who, act, target)

    def _insert(self, account: Account, document: Document) -> None:
        for _ in range(TRIES):
            document |= self._place(account)
            try:
                self.stores.services.insert_one(document)
            except DuplicateKeyError as error:
                if "name" in (error.details or {}).get("keyPattern", {}):
                    name = document["name"]
                    raise ServiceConflict(f"there is a service {name} already") from error
                time.sleep(random.uniform(0.0, 0.02))
            else:
                return
        raise ServiceConflict("too many make services of this account: try again")

    def _place(self, account: Account) -> Document:
        """Find a free place among those that an account has, and the next of today."""
        webhooks, services = self.config.webhooks, self.stores.services
        taken = {each.get("slot") for each in services.find(_live(account), {"slot": 1})}
        slot = next((each for each in range(webhooks.services_most) if each not in taken), None)
        # More than may be are there where the setting was lowered.
        if slot is None or len(taken) >= webhooks.services_most:
            why = f"there are {len(taken)} services, as many as an account may have"
            raise ServiceConflict(f"{why} (`[webhooks] services_most`): delete one first")
        today = f"{stored_now():%Y-%m-%d}"
        made = services.count_documents(
            {"account": account, "made_as": {"$gt": today, "$lt": f"{today}~"}}
        )
        if made >= webhooks.made_a_day:
            why = f"{made} services were made today, as many as an account may make in a day"
            why += " (`[webhooks] made_a_day`): go on tomorrow, UTC, or reuse one"
            raise MadeTooMany(why, DAY_SECONDS - time.time() % DAY_SECONDS)
        return {"live": True, "slot": slot, "made_as": f"{today} {made + 1:06}"}

    def _end_all(self, which: Document) -> int:
        gone = {
            "state": ServiceState.DELETED.value,
            "deleted_at": stored_now(),
            "secrets": [],
            "headers": {},
            "ingest.push_secret": "",
        }
        ended = self.stores.services.update_many(which, {"$set": gone, "$unset": {"live": ""}})
        return ended.modified_count

    def _cancel(self, services: list[Service]) -> None:
        ends = time.monotonic() + CANCEL_SECONDS
        for each in services:
            while time.monotonic() < ends:
                if cancel_some(self.stores.deliveries, each.id) < CANCELLED_TOGETHER:
                    break

    def _announced(
        self,
        service: Service,
        secret: str | None = None,
        *,
        waits: bool = False,
        goes_on: bool = False,
    ) -> Made:
        """Have every process hear of it; `goes_on` ends what stopped its line."""
        revision, now = note_change(self.stores.limits), stored_now()

        async def announce() -> tuple[str, ...]:
            async with redis_of(self.config) as redis:
                await _revise(redis, service.line, revision, goes_on=goes_on)
                return await heard_by_all(redis, revision) if waits else ()

        try:
            late, within = asyncio.run(announce()), LIVES_SECONDS
        except (LimitsDown, LimitsBroken):
            late, within = ("",), UNHEARD_SECONDS
        if not late:
            return Made(service, secret)
        names = tuple(filter(None, late))
        return Made(service, secret, now + dt.timedelta(seconds=within), names)


def usual_service(
    config: Config, account: Account, name: str, kind: ServiceType, ingest: Ingest
) -> Service:
    """Make a service of which nothing is wished yet: what is not named is as the settings say."""
    webhooks = config.webhooks
    return Service(
        new_service_id(),
        account,
        name,
        "",
        (),
        made_at=stored_now(),
        concurrent=webhooks.concurrent,
        per_second=webhooks.per_second,
        attempts=webhooks.attempts,
        timeout_seconds=webhooks.timeout_seconds,
        type=kind,
        ingest=ingest,
    )


def seal_again(config: Config, stores: Collections, who: Operator) -> tuple[int, int]:
    """Encrypt all secrets by the first key; how many, and how many no key opens. Raises NotDone.

    Every process must have that key by then: it can sign no more where it has not.
    """
    with recorded(stores.audit, who, "service seal", {}) as outcome:
        box, sealed, closed = _box_of(config), 0, 0
        for document in stores.services.find(_EVERY_LIVE):
            service = service_in(document)
            for where, path, text in _sealed_texts(service):
                again = _sealed_again(box, service.id, text)
                closed += again is None
                if again not in {None, text}:
                    # By itself: the service may be given a new secret at the same time.
                    which = {"_id": service.id, where: text}
                    done = stores.services.update_one(which, {"$set": {path: again}})
                    sealed += done.modified_count
        note_change(stores.limits)
        outcome |= {"sealed": sealed, "closed": closed}
    return sealed, closed


def _sealed_texts(service: Service) -> list[tuple[str, str, str]]:
    """List the secrets of a service, each with where it is found and where it is set."""
    texts = [("secrets.text", "secrets.$.text", each.text) for each in service.secrets]
    path = "ingest.push_secret"
    return texts + [(path, path, each) for each in [service.ingest.push_secret] if each]


def _sealed_again(box: SecretBox, owner: str, text: str) -> str | None:
    """Encrypt a secret by the first key; None where no key opens it."""
    try:
        plain = box.opened(text, owner)
    except Unreadable:
        return None
    return text if box.is_current(text) else box.closed(plain, owner)


async def heard_by_all(
    redis: Redis, revision: int, seconds: float = WAIT_SECONDS
) -> tuple[str, ...]:
    """Wait until every live process goes by a revision; names those that do not after `seconds`.

    Raises LimitsDown. A process that vanished is not waited for: it is known to be gone by who runs
    beside it, and to all others once LIVES_SECONDS are over.
    """
    ends = time.monotonic() + seconds
    while late := await late_workers(redis, revision):
        if time.monotonic() >= ends:
            break
        await asyncio.sleep(LOOK_SECONDS)
    return tuple(late)


async def _revise(redis: Redis, line: Line, revision: int, *, goes_on: bool) -> None:
    pauses = Pauses(redis, lambda _: Rules(kind=DELIVERY))
    await pauses.revise(line, revision)
    if goes_on:
        await pauses.resume(line)


_EVERY_LIVE: Document = {"state": {"$ne": ServiceState.DELETED.value}}


def _box_of(config: Config) -> SecretBox:
    try:
        return SecretBox.of(config.webhooks.keys)
    except BadKeys as error:
        raise NoKeys(
            f"secrets of services cannot be kept: {error}. `{PROGRAM} service key` "
            "prints a key: set it as TRACKER_WEBHOOKS__KEYS, or its file as "
            "TRACKER_WEBHOOKS__KEYS_FILE, for api and all workers, and start these again"
        ) from error


def _live(account: Account, name: str | None = None) -> Document:
    which: Document = {"account": account, **_EVERY_LIVE}
    return which if name is None else which | {"name": name}


def _as_kept(service: Service) -> list[Document]:
    return [{"text": each.text, "ends_at": each.ends_at} for each in service.secrets]


def _secrets(texts: list[str]) -> Document:
    return {"secrets": [{"text": text, "ends_at": None} for text in texts]}


def _unknown(name: str) -> UnknownService:
    return UnknownService(f"there is no service {name[:40]}")
