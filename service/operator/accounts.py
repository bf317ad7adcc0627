"""Accounts and their keys, as people keep them in MongoDB.

Nothing is deleted: the name of a removed account would lead a newcomer to what the last one left,
and a door to which a key once belonged must not open when the last key ends.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from service.config.cross_checks import ADDRESS
from service.config.schema import Config
from service.operator.audit import Operator, recorded
from service.operator.connections import Collections
from service.operator.keys import PREFIX_CHARACTERS, Key, Scope, digest, make_key, needed
from service.operator.signatures import HmacSecret, Signing, kind_of, make_secret
from service.worker.deliveries.mail import NotTaken, hand_over
from service.worker.results.database import INBOX_KEEP_DAYS_MOST, Document
from service.worker.results.schema_conflicts import of_one_account
from service.worker.results.shipments import delete_of_account
from tracking.errors import NotDone
from tracking.request import MAIN, Account

TEST_MAIL_SECONDS = 10.0
"""How long a person waits for the mail server."""


@dataclass(frozen=True, slots=True)
class KeptAccount:
    """An account; `keys` of it work now. `main` is there from the beginning.

    `alerts`: where alerts about its webhooks go by mail, "" for nowhere. `inbox_keep_days`: how
    long relayed requests are kept after their end, None for as long as the settings say.
    `suspended_why`: None where it is not suspended (suspension.py).
    """

    name: Account
    made_at: dt.datetime | None
    removed_at: dt.datetime | None
    keys: int
    alerts: str = ""
    inbox_keep_days: int | None = None
    suspended_why: str | None = None


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A key as it is listed; `signature`: how requests with it must be signed, `hmac` or `rsa`.

    `per_second`: how often it may be used, None as often as the settings say.
    """

    prefix: str
    account: Account
    scopes: tuple[Scope, ...]
    signature: str | None
    made_at: dt.datetime
    ends_at: dt.datetime | None
    per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What is agreed of a key beside its scopes, and its successors inherit.

    `signing`: what its requests need. `lasts_seconds`: how long it works, None for ever.
    `per_second`: how often it may be used, None as often as the settings say.
    """

    signing: Signing | None = None
    lasts_seconds: float | None = None
    per_second: float | None = None


NO_TERMS = Terms()
PER_SECOND_MOST = 1_000_000
"""The most uses a second of a key, as of `[http] per_second`."""


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key that was just made; nobody can read it again. `signing` is what its requests need."""

    text: str
    signing: Signing | None


_HERE = Operator()


def add_account(stores: Collections, name: Account, who: Operator = _HERE) -> None:
    """Add an account. Raises NotDone."""
    with recorded(stores.audit, who, "account add", {"account": name}):
        for parcels, number in (
            (stores.tracking, "tracking_number"),
            (stores.unreadable, "number"),
        ):
            for why in of_one_account(parcels, number):
                raise NotDone(why)
        try:
            stores.accounts.insert_one({"_id": name, "made_at": _now()})
        except DuplicateKeyError as error:
            found = stores.accounts.find_one({"_id": name}) or {}
            if "removed_at" in found:
                raise NotDone(f"{name} was removed, and its name is not given again") from error
            raise NotDone(f"there is an account {name} already") from error


def remove_account(stores: Collections, name: Account) -> int:
    """Remove an account, end its keys and users, delete its shipments and links.

    Tells how many keys ended. Raises NotDone.
    """
    with _recorded(stores, "account remove", account=name) as outcome:
        if name == MAIN:
            raise NotDone(f"{MAIN} owns what comes by the tube, and stays")
        now, there = _now(), {"_id": name, "removed_at": {"$exists": False}}
        if not stores.accounts.update_one(there, {"$set": {"removed_at": now}}).matched_count:
            raise NotDone(f"there is no account {name}: `account list` shows them")
        outcome["keys_ended"] = ended = _end(stores.keys, {"account": name}, now)
        outcome["shipments"] = delete_of_account(stores.shipments, name, now)
        outcome["links"] = stores.links.delete_many({"account": name}).deleted_count
        users = {"account": name, "ended_at": None}
        outcome["users"] = stores.users.update_many(
            users, {"$set": {"ended_at": now, "password": None}}
        ).modified_count
        stores.invitations.delete_many({"account": name})
    return ended


def may_be_removed(stores: Collections, name: Account) -> bool:
    """Whether `remove_account` would remove it: callers that ask a person first need to know."""
    return name != MAIN and _is_there(stores, name)


def is_served(stores: Collections, name: Account) -> bool:
    """Whether parcels are asked for by what an account has handed out: not where it was removed."""
    stopped = [{each: {"$exists": True}} for each in ("removed_at", "suspended")]
    return not stores.accounts.find_one({"_id": name, "$or": stopped})


def accounts(stores: Collections) -> list[KeptAccount]:
    """List all accounts, `main` first, then by name."""
    now = _now()
    working = [key.account for key in keys(stores) if key.ends_at is None or key.ends_at > now]
    main = stores.accounts.find_one({"_id": MAIN}) or {"_id": MAIN}
    found = [main, *stores.accounts.find({"_id": {"$ne": MAIN}}).sort("_id")]
    return [_kept(each, working.count(each["_id"])) for each in found]


def find_account(stores: Collections, name: Account) -> KeptAccount:
    """Find an account that was not removed; `keys` are not counted. Raises NotDone."""
    insist_on(stores, name)
    return _kept(stores.accounts.find_one({"_id": name}) or {"_id": name}, 0)


def _kept(document: Document, keys: int) -> KeptAccount:
    return KeptAccount(
        document["_id"],
        document.get("made_at"),
        document.get("removed_at"),
        keys,
        document.get("alerts", ""),
        document.get("inbox_keep_days"),
        (document.get("suspended") or {}).get("why"),
    )


def set_alerts(stores: Collections, who: Operator, name: Account, address: str) -> None:
    """Set where alerts about an account's webhooks go by mail, "" for nowhere. Raises NotDone."""
    with recorded(stores.audit, who, "account set", {"account": name, "alerts": address}):
        if address and not ADDRESS.fullmatch(address):
            raise NotDone(
                f"{address[:80]!r} is no address of a mailbox: write alerts=me@example.com"
            )
        _set(stores, name, {"$set": {"alerts": address}})


def send_test_mail(config: Config, stores: Collections, who: Operator, name: Account) -> str:
    """Send a mail to where an account's alerts go; gives what the server answered. Raises NotDone.

    It is tried once, now: nobody hears of it later.
    """
    with recorded(stores.audit, who, "account test-mail", {"account": name}) as outcome:
        if not config.mail.host:
            raise NotDone("no mails are sent: [mail] host names no server")
        address = find_account(stores, name).alerts
        if not address:
            raise NotDone(f"alerts of {name} go to nobody: set an address first")
        mail = {"_id": f"test-{secrets.token_hex(8)}", "to": address, "made_at": _now()}
        mail["subject"] = f"Test: alerts of the account {name} come here"
        mail["text"] = f"This is what was asked for by {who.user or 'the command line'}.\n"
        try:
            answer = asyncio.run(hand_over(config.mail, mail, TEST_MAIL_SECONDS))
        except NotTaken as error:
            raise NotDone(f"{config.mail.host} did not take the mail: {error}") from error
        outcome |= {"to": address, "answer": answer}
        return answer


def set_inbox_keep_days(
    stores: Collections, who: Operator, name: Account, days: int | None
) -> None:
    """Set for how long an account's relayed requests are kept, None: as the settings say.

    Raises NotDone.
    """
    with recorded(stores.audit, who, "account set", {"account": name, "inbox_keep_days": days}):
        if days is not None and not 1 <= days <= INBOX_KEEP_DAYS_MOST:
            why = f"they are kept for 1 to {INBOX_KEEP_DAYS_MOST} days"
            raise NotDone(f"{days} is none of them: {why}, like inbox_keep_days=90")
        kept = {"inbox_keep_days": days}
        _set(stores, name, {"$set": kept} if days else {"$unset": kept})


def _set(stores: Collections, name: Account, change: Document) -> None:
    insist_on(stores, name)
    stores.accounts.update_one({"_id": name}, change, upsert=name == MAIN)


def add_key(
    stores: Collections,
    who: Operator,
    account: Account,
    scopes: Sequence[Scope],
    terms: Terms = NO_TERMS,
) -> MadeKey:
    """Make a key for an account. Raises NotDone."""
    target: Document = {"account": account, "scopes": [*map(str, scopes)]}
    if terms.signing:
        target["signature"] = kind_of(terms.signing)
    target |= _lasting(terms)
    with recorded(stores.audit, who, "key add", target) as outcome:
        if Scope.ADMIN in scopes and account != MAIN:
            raise NotDone(f"{Scope.ADMIN} is for keys of {MAIN}: with another one it opens nothing")
        if lacking := [each.value for one in scopes for each in needed(one) if each not in scopes]:
            raise NotDone(f"{Scope.HOOKS} goes with {', '.join(lacking)}: alone it opens nothing")
        if terms.per_second is not None and not 0 < terms.per_second <= PER_SECOND_MOST:
            why = f"above 0, {PER_SECOND_MOST:,} at most"
            raise NotDone(f"{terms.per_second:g} is no number of requests a second: {why}")
        insist_on(stores, account)
        made = _add_key(stores, account, scopes, terms)
        outcome["key"] = prefix = made.text[:PREFIX_CHARACTERS]
        with _ended_again(stores, prefix):
            insist_on(stores, account)
    return made


def keys(stores: Collections, account: Account | None = None) -> list[KeptKey]:
    """List keys, oldest first, also those that have ended.

    Raises NotDone where the account was never there, or was removed before it had any.
    """
    asked = {} if account is None else {"account": account}
    found = [
        KeptKey(
            key.prefix,
            key.account,
            key.scopes,
            kind_of(key.signing),
            each["made_at"],
            each["ends_at"],
            key.per_second,
        )
        for each in stores.keys.find(asked).sort("made_at")
        for key in read_key(each)
    ]
    if account is not None and not found:
        insist_on(stores, account)
    return found


def revoke_key(stores: Collections, who: Operator, prefix: str) -> None:
    """End a key now. Raises NotDone."""
    with recorded(stores.audit, who, "key revoke", {"key": prefix}):
        _working(stores, who, prefix)
        _end(stores.keys, {"_id": prefix}, _now())


def rotate_key(stores: Collections, who: Operator, prefix: str, keep_seconds: float) -> MadeKey:
    """Make a key like another one, which ends after `keep_seconds`. Raises NotDone.

    A secret is made again, too; a public key stays. It lasts as long as the old one once did.
    """
    target = {"key": prefix, "keep_seconds": keep_seconds}
    with recorded(stores.audit, who, "key rotate", target) as outcome:
        old = _working(stores, who, prefix)
        signing = make_secret() if isinstance(old.signing, HmacSecret) else old.signing
        lasts = (stores.keys.find_one({"_id": prefix}) or {}).get("lasts_seconds")
        made = _add_key(stores, old.account, old.scopes, Terms(signing, lasts, old.per_second))
        outcome["key"] = made.text[:PREFIX_CHARACTERS]
        with _ended_again(stores, made.text[:PREFIX_CHARACTERS]):
            _working(stores, who, prefix)
        _end(stores.keys, {"_id": prefix}, _now() + dt.timedelta(seconds=keep_seconds))
    return made


def read_key(document: Document) -> Iterator[Key]:
    """Read a key out of its document; nothing where it was not written by this service."""
    try:
        ends_at = document["ends_at"]
        yield Key(
            prefix=document["_id"],
            account=document["account"],
            scopes=tuple(map(Scope, document["scopes"])),
            sha256=document["sha256"],
            ends_at=ends_at and ends_at.timestamp(),
            signing=msgspec.convert(document.get("signing"), Signing | None),
            per_second=msgspec.convert(document.get("per_second"), float | None),
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return


def _recorded(
    stores: Collections, act: str, **target: Any
) -> AbstractContextManager[dict[str, Any]]:
    return recorded(stores.audit, Operator(), act, target)


def _lasting(terms: Terms) -> Document:
    """Write what a key has of its own of time, where it has."""
    own = {"lasts_seconds": terms.lasts_seconds, "per_second": terms.per_second}
    return {name: value for name, value in own.items() if value is not None}


def _add_key(
    stores: Collections, account: Account, scopes: Sequence[Scope], terms: Terms
) -> MadeKey:
    made, now, lasts = make_key(), _now(), terms.lasts_seconds
    stores.keys.insert_one(
        {
            "_id": made[:PREFIX_CHARACTERS],
            "account": account,
            "scopes": [scope.value for scope in scopes],
            "sha256": digest(made),
            "made_at": now,
            "ends_at": None if lasts is None else now + dt.timedelta(seconds=lasts),
            **({"signing": msgspec.to_builtins(terms.signing)} if terms.signing else {}),
            **_lasting(terms),
        }
    )
    return MadeKey(made, terms.signing)


def _working(stores: Collections, who: Operator, prefix: str) -> Key:
    """Find a key that works: of the account of who asks, or any for `main`. Raises NotDone."""
    # What seals ids and proofs stands there, too, and is no account's.
    found = stores.keys.find_one({"_id": prefix, "account": {"$exists": True}})
    if found and who.account not in {MAIN, found["account"]}:
        found = None
    for key in read_key(found) if found else ():
        if key.works(_now().timestamp()):
            return key
        raise NotDone(f"the key {prefix} has ended")
    raise NotDone(f"there is no key {prefix}: `key list` shows them")


@contextmanager
def _ended_again(stores: Collections, prefix: str) -> Iterator[None]:
    """End a key that was just made where its right to be ended meanwhile: the block says so."""
    try:
        yield
    except NotDone:
        _end(stores.keys, {"_id": prefix}, _now())
        raise


def insist_on(stores: Collections, account: Account) -> None:
    """Raises NotDone where there is no such account."""
    if not _is_there(stores, account):
        raise NotDone(f"there is no account {account}: `account add {account}` makes it")


def _is_there(stores: Collections, account: Account) -> bool:
    if account == MAIN:
        return True
    return bool(stores.accounts.find_one({"_id": account, "removed_at": {"$exists": False}}))


def _end(collection: Collection[Document], which: dict[str, Any], at: dt.datetime) -> int:
    sooner = which | {"$or": [{"ends_at": None}, {"ends_at": {"$gt": at}}]}
    return collection.update_many(sooner, {"$set": {"ends_at": at}}).modified_count


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
