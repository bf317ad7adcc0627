"""Links by which somebody chooses a password, once: the collection `invitations`.

=========== ====== ===============================================================================
purpose     lasts  lets somebody
=========== ====== ===============================================================================
`first`     30 min become the first owner of `main`, with an e-mail of their choice
`invite`    24 h   become a user of an account, in a role
`sign-up`   24 h   become a user by themselves: of the account that the settings name, or the owner
                   of a new one, where `account` is ""
`password`  1 h    choose a password as a user who is there; 24 h where an operator gives the link
=========== ====== ===============================================================================

A link ends in 256 random bits, of which the SHA-256 is kept. Who uses it deletes it: of two who do
so at once one succeeds. There is one of a purpose for an e-mail in an account, the newest, and one
for the first owner.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

from service.config.schema import Config
from service.operator.accounts import add_account, insist_on
from service.operator.audit import Operator, Via, recorded
from service.operator.connections import Collections
from service.operator.keys import digest
from service.operator.passwords import insist_on_strength
from service.operator.quotas import Quota, set_quotas
from service.operator.sessions import any_user
from service.operator.users import Role, User, add_user, email_of, find_user, new_user, set_password
from service.worker.deliveries.mail import LINKS, MailText, write_mail
from service.worker.results.database import Document
from tracking.errors import NotDone
from tracking.request import MAIN, Account

FIRST_MINUTES = 30
RESET_HOURS = 1
HOURS = 24

NOBODYS = Account("")
"""The account of a sign-up that makes a new one."""


class Purpose(StrEnum):
    """What a link is for."""

    FIRST = "first"
    INVITE = "invite"
    SIGN_UP = "sign-up"
    PASSWORD = "password"  # noqa: S105 - the word, not a password


@dataclass(frozen=True, slots=True)
class Invitation:
    """What a link lets its holder become; `email` is "" for the first owner."""

    purpose: Purpose
    email: str
    account: Account
    role: Role
    lasts: dt.timedelta = dt.timedelta(hours=HOURS)


def first_owner(stores: Collections, who: Operator) -> str:
    """Make the link for the first owner; the one before ends. Raises NotDone."""
    with recorded(stores.audit, who, "user add", {"first": True}):
        _insist_on_no_user(stores)
        lasts = dt.timedelta(minutes=FIRST_MINUTES)
        return make_link(stores, Invitation(Purpose.FIRST, "", MAIN, Role.OWNER, lasts))


def invite(stores: Collections, who: Operator, email: str, account: Account, role: Role) -> str:
    """Invite somebody into an account; gives what the link ends in. Raises NotDone.

    Owners invite into their own account, `main` into all. Where another account has a user of this
    e-mail, nobody hears of it but the person who follows the link.
    """
    target = {"user": email, "account": account, "role": role.value}
    with recorded(stores.audit, who, "user invite", target):
        if who.account not in {MAIN, account}:
            raise NotDone(f"there is no account {account}")
        insist_on(stores, account)
        found = find_user(stores, email)
        if found and found.account == account:
            raise NotDone(f"there is a user {email} already")
        return make_link(stores, Invitation(Purpose.INVITE, email, account, role))


def invited(stores: Collections, account: Account) -> list[Invitation]:
    """List whom an account has invited, while their links last."""
    begins = f"{Purpose.INVITE}:{account}"
    own = {"$gt": f"{begins}:", "$lt": f"{begins};"}  # `;` comes behind `:`
    lasting: Document = {"_id": own, "ends_at": {"$gt": dt.datetime.now(dt.UTC)}}
    return list(map(_read, stores.invitations.find(lasting).sort("_id")))


def withdraw(stores: Collections, who: Operator, account: Account, email: str) -> bool:
    """End an invitation; False where there is none."""
    target = {"user": email, "account": account}
    with recorded(stores.audit, who, "user withdraw", target) as outcome:
        wanted = {"_id": f"{Purpose.INVITE}:{account}:{email}"}
        outcome["withdrawn"] = gone = stores.invitations.delete_one(wanted).deleted_count
        return bool(gone)


def password_link(stores: Collections, who: Operator, email: str) -> str:
    """Give a user a link to choose a password by; gives what it ends in. Raises NotDone."""
    with recorded(stores.audit, who, "user password-link", {"user": email}):
        found = find_user(stores, email)
        if found is None or who.account not in {MAIN, found.account}:
            raise NotDone(f"there is no user {email}")
        return make_link(stores, Invitation(Purpose.PASSWORD, email, found.account, found.role))


def make_link(stores: Collections, wanted: Invitation) -> str:
    """Make a link in the place of the one before; gives what it ends in. Raises PyMongoError."""
    token, now = secrets.token_urlsafe(32), dt.datetime.now(dt.UTC)
    made: Document = {
        "sha256": digest(token),
        "purpose": wanted.purpose.value,
        "email": wanted.email,
        "account": wanted.account,
        "role": wanted.role.value,
        "made_at": now,
        "ends_at": now + wanted.lasts,
    }
    name = f"{wanted.purpose}:{wanted.account}:{wanted.email}"
    stores.invitations.replace_one({"_id": name}, made, upsert=True)
    return token


def find_link(stores: Collections, token: str) -> Invitation | None:
    """Find what a link is for, which does not use it; None where it was used, or has ended."""
    found = stores.invitations.find_one(_usable(token))
    return _read(found) if found else None


def accept(stores: Collections, config: Config, token: str, email: str, password: str) -> User:
    """Use a link: gives the user, who has this password from now on. Raises NotDone, StoreError.

    `email` counts for the first owner only. What is wrong with the password uses no link.
    """
    wanted = find_link(stores, token)
    if wanted is None:
        raise NotDone("this link was used already, or has ended: ask for another one")
    email = wanted.email or email_of(email)
    insist_on_strength(password, email)
    if wanted.purpose is Purpose.FIRST:
        _insist_on_no_user(stores)
    who = Operator(account=wanted.account or MAIN, via=Via.WEB, user=email)
    if stores.invitations.find_one_and_delete(_usable(token)) is None:
        raise NotDone("this link was used just now: log in, or ask for another one")
    if wanted.purpose is Purpose.PASSWORD:
        with recorded(stores.audit, who, "user password", {"user": email}):
            set_password(stores, email, wanted.account, password)
        return new_user(email, wanted.account, wanted.role)
    if find_user(stores, email):
        raise NotDone(f"there is a user {email} already: log in, or have your password reset")
    account = wanted.account or _new_account(stores, config, email)
    user = new_user(email, account, wanted.role)
    add_user(stores, who, user, password)
    return user


def ask_for_reset(stores: Collections, config: Config, email: str) -> None:
    """Mail a user a link to choose a password by; nothing happens where there is no such user."""
    if found := find_user(stores, email):
        lasts = dt.timedelta(hours=RESET_HOURS)
        wanted = Invitation(Purpose.PASSWORD, email, found.account, found.role, lasts)
        mail_link(stores, config, wanted.purpose, email, make_link(stores, wanted))


def ask_to_sign_up(stores: Collections, config: Config, email: str) -> None:
    """Mail somebody a link to become a user by, where the settings let them; else nothing."""
    web, domain = config.web, email.rpartition("@")[2]
    if web.sign_up == "domain" and domain not in web.sign_up_domains:
        return
    if find_user(stores, email):
        ask_for_reset(stores, config, email)
        return
    if web.sign_up == "domain":
        account, role = Account(web.sign_up_account), Role.VIEWER
    else:
        account, role = NOBODYS, Role.OWNER
    token = make_link(stores, Invitation(Purpose.SIGN_UP, email, account, role))
    mail_link(stores, config, Purpose.SIGN_UP, email, token)


_SUBJECTS = {
    Purpose.INVITE: "You are invited to follow parcels",
    Purpose.SIGN_UP: "Confirm your address",
    Purpose.PASSWORD: "Choose a new password",
}
_WHY = {
    Purpose.INVITE: "You are invited to the pages of the courier tracking worker",
    Purpose.SIGN_UP: "Somebody signs up with your address at the courier tracking worker",
    Purpose.PASSWORD: "Somebody asked for a new password for you at the courier tracking worker",
}


def mail_link(
    stores: Collections, config: Config, purpose: Purpose, email: str, token: str
) -> None:
    """Write the mail with a link, which is sent in the background. Raises PyMongoError."""
    lasts = "an hour" if purpose is Purpose.PASSWORD else f"{HOURS} hours"
    text = (
        f"{_WHY[purpose]}. Choose a password within {lasts}:\n\n{address_of(config, token)}\n\n"
        "If you do not expect this mail, ignore it: nothing happens then.\n"
    )
    name = f"{LINKS}{digest(token)[:24]}"
    write_mail(stores.mails, name, email, MailText(_SUBJECTS[purpose], text))


def address_of(config: Config, token: str) -> str:
    """Give the whole address of a link: by the settings, never by what a client says of itself."""
    return f"{pages_at(config)}/welcome/{token}"


def pages_at(config: Config) -> str:
    """Give the address of the pages, without a slash at its end."""
    return config.http.public_url or f"http://{config.api.listen}"


def _usable(token: str) -> Document:
    return {"sha256": digest(token), "ends_at": {"$gt": dt.datetime.now(dt.UTC)}}


def _read(document: Document) -> Invitation:
    purpose, role = Purpose(document["purpose"]), Role(document["role"])
    return Invitation(purpose, document["email"], Account(document["account"]), role)


def _insist_on_no_user(stores: Collections) -> None:
    if any_user(stores):
        raise NotDone("there are users already: an owner invites, or `user add EMAIL`")


def _new_account(stores: Collections, config: Config, email: str) -> Account:
    """Make an account with quotas, named after an e-mail, with digits where the name is taken."""
    name = re.sub(r"[^a-z0-9]", "", email.partition("@")[0])[:14] or "account"
    account = Account(name)
    while stores.accounts.find_one({"_id": account}, {"_id": 1}) or account == MAIN:
        account = Account(f"{name}{secrets.randbelow(900_000) + 100_000}")
    who = Operator(account=account, via=Via.WEB, user=email)
    add_account(stores, account, who)
    web = config.web
    quotas = {
        Quota.CALLS: web.sign_up_calls_a_day,
        Quota.PARCELS: web.sign_up_parcels,
        Quota.REQUESTS: web.sign_up_requests_a_minute,
    }
    set_quotas(config, stores, who, account, quotas)
    return account
