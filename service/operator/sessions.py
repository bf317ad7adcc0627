"""Sessions of users, as browsers hold them in a cookie: the collection `sessions`.

========= =======================================================================================
member    is
========= =======================================================================================
`_id`     the SHA-256 of the cookie's text, which nobody makes again from it
`email`, `account`
`stamp`   that of the user's password at the login; with another password the session has ended
`made_at`, `ends_at` when it goes, 14 days later
========= =======================================================================================
"""

from __future__ import annotations

import datetime as dt
import secrets

from service.operator.connections import Collections
from service.operator.keys import digest
from service.operator.passwords import is_password
from service.operator.users import User, read_user
from service.worker.results.database import Document

SESSION_DAYS = 14


def any_user(stores: Collections) -> bool:
    """Whether there is a user. Raises PyMongoError, as all of this module."""
    return stores.users.find_one({"ended_at": None}, {"_id": 1}) is not None


def open_session(stores: Collections, email: str, password: str) -> str | None:
    """Open a session; gives the cookie's text, None where e-mail or password is wrong.

    It takes as long for an e-mail that nobody has. Callers count attempts, and run few at once.
    """
    found = stores.users.find_one({"_id": email, "ended_at": None})
    kept = None if found is None else found["password"]
    if not is_password(password, kept) or found is None:
        return None
    return _open(stores, found)


def open_session_of(stores: Collections, email: str) -> str | None:
    """Open a session of a user whom a proxy knows already; None where there is no such user."""
    found = stores.users.find_one({"_id": email, "ended_at": None})
    return _open(stores, found) if found else None


def find_session(stores: Collections, text: str) -> User | None:
    """Find the user of a cookie; None where it is not known, or has ended."""
    now = dt.datetime.now(dt.UTC)
    session = stores.sessions.find_one({"_id": digest(text), "ends_at": {"$gt": now}})
    if session is None:
        return None
    is_same = {"_id": session["email"], "stamp": session["stamp"], "ended_at": None}
    found = stores.users.find_one(is_same)
    return read_user(found) if found else None


def end_session(stores: Collections, text: str) -> None:
    """End a session."""
    stores.sessions.delete_one({"_id": digest(text)})


def _open(stores: Collections, user: Document) -> str:
    text, now = secrets.token_urlsafe(32), dt.datetime.now(dt.UTC)
    session = {
        "_id": digest(text),
        "email": user["_id"],
        "account": user["account"],
        "stamp": user["stamp"],
        "made_at": now,
        "ends_at": now + dt.timedelta(days=SESSION_DAYS),
    }
    stores.sessions.insert_one(session)
    return text
