"""Users of the pages, as people keep them in MongoDB: the collection `users`.

========== ======================================================================================
member     is
========== ======================================================================================
`_id`      the e-mail in small letters: no two accounts have the same user
`account`, `role`
`password` what argon2id makes of it; null where none was chosen, so that nobody knows it
`stamp`    random, new with each password: sessions that were opened under another one have ended
`made_at`
`ended_at` when the user was removed, else null; it goes 30 days later, and anybody may add the same
           e-mail before
`going_at` of an owner who is about to be none: since when (_step_down)
========== ======================================================================================
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from pymongo.errors import DuplicateKeyError

from service.config.cross_checks import ADDRESS
from service.operator.accounts import insist_on
from service.operator.audit import Operator, recorded
from service.operator.connections import Collections
from service.operator.keys import Scope
from service.operator.passwords import hash_password, insist_on_strength, is_password
from service.worker.results.database import Document
from service.worker.results.document import stored_now
from tracking.errors import NotDone
from tracking.request import MAIN, Account

GOING_MOST = dt.timedelta(minutes=1)
"""To let an owner go takes some milliseconds: what lasts longer somebody began who is gone."""


class Role(StrEnum):
    """What a user may do; owners also keep the keys and the users of their account."""

    VIEWER = "viewer"
    MEMBER = "member"
    OWNER = "owner"


_SCOPES = {
    Role.VIEWER: (Scope.READ,),
    Role.MEMBER: (Scope.READ, Scope.INGEST),
    Role.OWNER: (Scope.READ, Scope.INGEST, Scope.HOOKS),
}


def scopes_of(role: Role) -> tuple[Scope, ...]:
    """List the scopes that a key would need for what a role may do."""
    return _SCOPES[role]


@dataclass(frozen=True, slots=True)
class User:
    """A user, without the password."""

    email: str
    account: Account
    role: Role
    made_at: dt.datetime


def new_user(email: str, account: Account, role: Role) -> User:
    """Describe a user who is made now."""
    return User(email, account, role, dt.datetime.now(dt.UTC))


def email_of(text: str) -> str:
    """Read an e-mail as it is kept. Raises NotDone."""
    email = text.strip().lower()
    if not ADDRESS.fullmatch(email):
        raise NotDone(f"{text[:80]!r} is no address of a mailbox: write one like me@example.com")
    return email


def users(stores: Collections, account: Account | None = None) -> list[User]:
    """List the users of an account, or of all, by account and e-mail."""
    asked: Document = {"ended_at": None} | ({} if account is None else {"account": account})
    return [read_user(each) for each in stores.users.find(asked).sort([("account", 1), ("_id", 1)])]


def find_user(stores: Collections, email: str) -> User | None:
    """Find a user who was not removed."""
    found = stores.users.find_one({"_id": email, "ended_at": None})
    return read_user(found) if found else None


def read_user(document: Document) -> User:
    """Read a user out of its document."""
    role = Role(document["role"])
    return User(document["_id"], Account(document["account"]), role, document["made_at"])


def add_user(stores: Collections, who: Operator, user: User, password: str | None = None) -> None:
    """Add a user; without a password until a link lets one be chosen. Raises NotDone."""
    target = {"user": user.email, "account": user.account, "role": user.role.value}
    with recorded(stores.audit, who, "user add", target):
        if password is not None:
            insist_on_strength(password, user.email)
        insist_on(stores, user.account)
        made: Document = {
            "account": user.account,
            "role": user.role.value,
            "password": password and hash_password(password),
            "stamp": make_stamp(),
            "made_at": user.made_at,
            "ended_at": None,
        }
        removed = {"_id": user.email, "ended_at": {"$ne": None}}
        try:
            stores.users.replace_one(removed, made, upsert=True)
        except DuplicateKeyError as error:
            raise NotDone(f"there is a user {user.email} already") from error
        try:
            insist_on(stores, user.account)
        except NotDone:
            stores.users.update_one({"_id": user.email, "ended_at": None}, {"$set": _ended()})
            raise


def set_role(stores: Collections, who: Operator, email: str, role: Role) -> None:
    """Give a user another role. Raises NotDone."""
    with _acting(stores, who, "user role", email, role=role.value):
        if role is Role.OWNER:
            there = {"_id": email, "ended_at": None}
            stores.users.update_one(there, {"$set": {"role": role.value}})
        else:
            _step_down(stores, email, {"role": role.value})


def remove_user(stores: Collections, who: Operator, email: str) -> None:
    """Remove a user and end the sessions. Raises NotDone."""
    with _acting(stores, who, "user remove", email):
        _step_down(stores, email, _ended())


def sign_out(stores: Collections, who: Operator, email: str) -> None:
    """End all sessions of a user. Raises NotDone."""
    with _acting(stores, who, "user sign-out", email):
        stores.users.update_one({"_id": email}, {"$set": {"stamp": make_stamp()}})


def change_password(stores: Collections, who: Operator, old: str, new: str) -> None:
    """Change the password of the user who asks, which ends all sessions. Raises NotDone."""
    email = who.user or ""
    with _acting(stores, who, "user password", email):
        found = stores.users.find_one({"_id": email, "ended_at": None}) or {}
        if not is_password(old, found.get("password")):
            raise NotDone("this is not the password that you have")
        set_password(stores, email, who.account, new)


def set_password(stores: Collections, email: str, account: Account, password: str) -> None:
    """Set a password, which ends all sessions and other links to choose one. Raises NotDone."""
    insist_on_strength(password, email)
    change = {"password": hash_password(password), "stamp": make_stamp()}
    there = {"_id": email, "account": account, "ended_at": None}
    if not stores.users.update_one(there, {"$set": change}).matched_count:
        raise NotDone(f"there is no user {email} any more")
    stores.invitations.delete_many({"_id": f"password:{account}:{email}"})


def make_stamp() -> str:
    """Make the stamp of a password."""
    return secrets.token_hex(8)


@contextmanager
def _acting(
    stores: Collections, who: Operator, act: str, email: str, **more: str
) -> Iterator[None]:
    """Record an act on a user; owners act on those of their account, who is of `main` on all."""
    with recorded(stores.audit, who, act, {"user": email} | more):
        found = find_user(stores, email)
        if found is None or who.account not in {MAIN, found.account}:
            raise NotDone(f"there is no user {email}")
        yield


def _step_down(stores: Collections, email: str, change: Document) -> None:
    """Change a user who is no owner from then on. Raises NotDone where no owner would be left.

    An owner who is about to go is marked before the others are counted, and is not among these: of
    two who let each other go at the same instant at most one goes.
    """
    found = stores.users.find_one({"_id": email, "ended_at": None}) or {"role": None}
    there = {"_id": email, "ended_at": None, "role": found["role"]}
    now = stored_now()
    if found["role"] == Role.OWNER:
        there["going_at"] = now
        _mark(stores, email, found["account"], now)
    done = stores.users.update_one(there, {"$set": change, "$unset": {"going_at": ""}})
    if not done.matched_count:
        raise NotDone(f"somebody else changes {email} at this moment: try again")


def _mark(stores: Collections, email: str, account: str, now: dt.datetime) -> None:
    """Mark an owner who is about to go. Raises NotDone where no other one stays."""
    owners: Document = {"account": account, "role": Role.OWNER.value, "ended_at": None}
    forgotten = {"going_at": {"$lt": now - GOING_MOST}}
    stores.users.update_many(owners | forgotten, {"$unset": {"going_at": ""}})
    stores.users.update_one(owners | {"_id": email}, {"$set": {"going_at": now}})
    others = owners | {"_id": {"$ne": email}, "going_at": None}
    if not stores.users.count_documents(others, limit=1):
        own = {"_id": email, "going_at": now}
        stores.users.update_one(own, {"$unset": {"going_at": ""}})
        raise NotDone(f"{email} is the only owner of {account}: make another one first")


def _ended() -> Document:
    return {"ended_at": dt.datetime.now(dt.UTC), "password": None, "stamp": make_stamp()}
