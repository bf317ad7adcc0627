"""Users and their sessions, against a real MongoDB."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import argon2
import pytest
from people import ACME, ANNA, BEN, HERE, OWNER, PASSWORD, add
from pymongo.collection import Collection

from service.operator import passwords, users
from service.operator.accounts import add_account, remove_account
from service.operator.connections import Collections
from service.operator.keys import Scope
from service.operator.passwords import AT_ONCE, NOBODYS, WAIT_MOST, Looks, TooManyLooks
from service.operator.sessions import (
    any_user,
    end_session,
    find_session,
    open_session,
    open_session_of,
)
from service.operator.users import Role, scopes_of
from service.worker.results.database import Names, indexes_for
from tracking.errors import NotDone
from tracking.request import MAIN, Account


def open_one(stores: Collections, email: str = ANNA) -> str:
    text = open_session_of(stores, email)
    assert text
    return text


@pytest.mark.parametrize(
    ("role", "scopes"),
    [
        (Role.VIEWER, {Scope.READ}),
        (Role.MEMBER, {Scope.READ, Scope.INGEST}),
        (Role.OWNER, {Scope.READ, Scope.INGEST, Scope.HOOKS}),
    ],
)
def test_a_role_is_good_for_what_keys_with_its_scopes_are(role: Role, scopes: set[Scope]) -> None:
    assert set(scopes_of(role)) == scopes


def test_an_e_mail_is_a_user_of_one_account_in_the_whole_system(stores: Collections) -> None:
    add(stores)

    with pytest.raises(NotDone, match="already"):
        add(stores, account=MAIN)

    assert [each.account for each in users.users(stores)] == ["acme"]
    assert users.users(stores, MAIN) == []


@pytest.mark.parametrize(
    "text", ["", "anna", "anna@", "Anna <anna@acme.example>", "a@b@c", "a b@c"]
)
def test_what_is_no_mailbox_is_no_user(text: str) -> None:
    with pytest.raises(NotDone, match="no address of a mailbox"):
        users.email_of(text)


def test_an_e_mail_is_the_same_in_large_letters() -> None:
    assert users.email_of(" Anna@ACME.example\n") == ANNA


@pytest.mark.prove
def test_of_a_password_only_what_argon2id_makes_of_it_is_kept(
    stores: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "PasswordHasher", argon2.PasswordHasher)
    add(stores)

    [kept] = stores.users.find()
    assert kept["password"].startswith("$argon2id$v=19$")
    assert not argon2.PasswordHasher().check_needs_rehash(kept["password"])
    assert PASSWORD not in str(kept)


def test_the_hash_of_nobody_costs_what_that_of_a_user_costs() -> None:
    assert not argon2.PasswordHasher().check_needs_rehash(NOBODYS)


@pytest.mark.parametrize("password", ["short", "x" * 201, ANNA, f" {ANNA.upper()} "])
def test_a_password_that_is_easily_guessed_is_refused(stores: Collections, password: str) -> None:
    with pytest.raises(NotDone):
        add(stores, password=password)

    assert not any_user(stores)


def test_a_password_is_the_same_however_a_keyboard_composes_it(stores: Collections) -> None:
    apart, together = "gru\u0308n und ru\u0308stig", "gr\u00fcn und r\u00fcstig"
    add(stores, password=apart)

    assert open_session(stores, ANNA, together)


def test_a_session_opens_with_the_password_and_with_nothing_else(stores: Collections) -> None:
    add(stores)
    add(stores, BEN, password=None)

    text = open_session(stores, ANNA, PASSWORD)
    assert text
    found = find_session(stores, text)
    assert found
    assert (found.email, found.account, found.role) == (ANNA, "acme", Role.OWNER)
    for email, password in [
        (ANNA, PASSWORD.upper()),
        (ANNA, ""),
        (ANNA, PASSWORD * 20),
        (BEN, PASSWORD),
        (BEN, ""),
        (BEN, "nobody's"),  # of which the hash is that of nobody, in these tests
        ("nobody@acme.example", "nobody's"),
        ("nobody@acme.example", PASSWORD),
    ]:
        assert open_session(stores, email, password) is None


def test_an_unknown_e_mail_has_a_password_looked_at_as_a_known_one(
    stores: Collections, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(stores)
    looked: list[str] = []

    class Counting(argon2.PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002 - argon2's
            looked.append(str(hash))
            return super().verify(hash, password)

    monkeypatch.setattr(passwords, "PasswordHasher", Counting)

    open_session(stores, "nobody@acme.example", PASSWORD)
    assert looked == [passwords.NOBODYS]
    open_session(stores, ANNA, PASSWORD)
    assert len(looked) == 2


def test_of_a_session_only_a_hash_is_kept_for_14_days(stores: Collections) -> None:
    add(stores)
    text = open_one(stores)

    [kept] = stores.sessions.find()
    assert text not in str(kept)
    assert len(text) >= 43
    assert kept["ends_at"] - kept["made_at"] == dt.timedelta(days=14)
    [index] = indexes_for(Names(""))["sessions"]
    assert (index.members, index.until) == (("ends_at",), True)
    stores.sessions.update_one({}, {"$set": {"ends_at": dt.datetime.now(dt.UTC)}})
    assert find_session(stores, text) is None


def test_a_text_that_no_login_gave_is_no_session(stores: Collections) -> None:
    add(stores)
    open_one(stores)
    [kept] = stores.sessions.find()

    for text in ("", kept["_id"], "x" * 43, '{"$ne": null}', "\udc80"):
        assert find_session(stores, text) is None


def test_a_session_that_was_ended_has_ended_and_others_go_on(stores: Collections) -> None:
    add(stores)
    one, other = open_one(stores), open_one(stores)

    end_session(stores, one)

    assert find_session(stores, one) is None
    assert find_session(stores, other)


def test_a_change_of_the_password_ends_all_sessions(stores: Collections) -> None:
    add(stores)
    texts = [open_one(stores) for _ in "123"]

    users.change_password(stores, OWNER, PASSWORD, "another horse battery")

    assert [find_session(stores, text) for text in texts] == [None] * 3
    assert open_session(stores, ANNA, PASSWORD) is None
    assert open_session(stores, ANNA, "another horse battery")


def test_a_password_is_changed_by_who_knows_it_alone(stores: Collections) -> None:
    add(stores)

    with pytest.raises(NotDone, match="not the password"):
        users.change_password(stores, OWNER, "wrong horse battery", "another horse battery")

    assert open_session(stores, ANNA, PASSWORD)


def test_a_user_who_is_signed_out_by_others_logs_in_again(stores: Collections) -> None:
    add(stores)
    text = open_one(stores)

    users.sign_out(stores, HERE, ANNA)

    assert find_session(stores, text) is None
    assert open_session(stores, ANNA, PASSWORD)


def test_a_role_counts_at_once_in_sessions_that_are_open(stores: Collections) -> None:
    add(stores)
    add(stores, BEN)
    text = open_one(stores, BEN)

    users.set_role(stores, OWNER, BEN, Role.VIEWER)

    found = find_session(stores, text)
    assert found
    assert found.role is Role.VIEWER


def test_a_removed_user_is_out_and_comes_back_with_neither_session_nor_password(
    stores: Collections,
) -> None:
    add(stores)
    add(stores, BEN)
    text = open_one(stores, BEN)

    users.remove_user(stores, OWNER, BEN)
    assert find_session(stores, text) is None
    assert open_session(stores, BEN, PASSWORD) is None

    add(stores, BEN, account=MAIN, password=None)
    assert find_session(stores, text) is None
    assert open_session(stores, BEN, PASSWORD) is None


def test_a_removed_account_ends_its_users_and_their_sessions(stores: Collections) -> None:
    add(stores)
    text = open_one(stores)

    remove_account(stores, ACME)

    assert find_session(stores, text) is None
    assert open_session(stores, ANNA, PASSWORD) is None
    assert users.users(stores) == []
    with pytest.raises(NotDone, match="no account acme"):
        add(stores, BEN)


def test_an_account_keeps_an_owner(stores: Collections) -> None:
    add(stores)
    add(stores, BEN, role=Role.MEMBER)

    with pytest.raises(NotDone, match="only owner"):
        users.remove_user(stores, OWNER, ANNA)
    with pytest.raises(NotDone, match="only owner"):
        users.set_role(stores, OWNER, ANNA, Role.VIEWER)

    users.set_role(stores, OWNER, BEN, Role.OWNER)
    users.remove_user(stores, OWNER, ANNA)
    assert [each.email for each in users.users(stores)] == [BEN]


@pytest.mark.parametrize("acts", ["role role", "role remove", "remove remove"])
def test_of_two_owners_who_let_each_other_go_at_the_same_instant_one_stays(
    stores: Collections, monkeypatch: pytest.MonkeyPatch, acts: str
) -> None:
    add(stores)
    add(stores, BEN)
    both, count = threading.Barrier(2, timeout=10), Collection.count_documents

    def count_together(*args: Any, **kwargs: Any) -> int:
        both.wait()
        return count(*args, **kwargs)

    def let_go(act: str, email: str) -> bool:
        try:
            if act == "role":
                users.set_role(stores, OWNER, email, Role.VIEWER)
            else:
                users.remove_user(stores, OWNER, email)
        except NotDone:
            return False
        return True

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(Collection, "count_documents", count_together)
        gone = list(pool.map(let_go, acts.split(), [ANNA, BEN]))
    owners = [each.email for each in users.users(stores) if each.role is Role.OWNER]

    assert len(owners) == 2 - gone.count(True) > 0
    assert [let_go("remove", each) for each in owners] == [True] * (len(owners) - 1) + [False]


def test_an_owner_whom_somebody_began_to_let_go_and_died_counts_again(stores: Collections) -> None:
    add(stores)
    add(stores, BEN)
    old = dt.datetime.now(dt.UTC) - 2 * users.GOING_MOST
    stores.users.update_one({"_id": BEN}, {"$set": {"going_at": old}})

    users.remove_user(stores, OWNER, ANNA)

    assert [each.email for each in users.users(stores)] == [BEN]


def test_the_owner_of_an_account_reaches_no_user_of_another_one(stores: Collections) -> None:
    add_account(stores, Account("other"))
    for email in ("carl@other.example", "cora@other.example"):
        add(stores, email, account=Account("other"))
    text = open_one(stores, "carl@other.example")

    for act in (
        lambda: users.set_role(stores, OWNER, "carl@other.example", Role.VIEWER),
        lambda: users.remove_user(stores, OWNER, "carl@other.example"),
        lambda: users.sign_out(stores, OWNER, "carl@other.example"),
    ):
        with pytest.raises(NotDone, match="there is no user"):
            act()

    found = find_session(stores, text)
    assert found
    assert found.role is Role.OWNER


def test_an_act_by_a_page_is_on_record_with_its_user(stores: Collections) -> None:
    add(stores)
    users.sign_out(stores, OWNER, ANNA)

    kept = stores.audit.find_one({"act": "user sign-out"}) or {}
    assert (kept["via"], kept["account"], kept["user"]) == ("web", "acme", ANNA)
    assert (kept["key"], kept["target"], kept["outcome"]) == (None, {"user": ANNA}, {})
    by_hand = stores.audit.find_one({"act": "user add"}) or {}
    assert (by_hand["via"], "user" in by_hand) == ("cli", False)


async def test_few_passwords_are_looked_at_at_once_and_few_wait() -> None:
    looks, hold, running, most = Looks(), threading.Event(), [0], [0]
    lock = threading.Lock()

    def look() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        hold.wait(5)
        with lock:
            running[0] -= 1

    waiting = [asyncio.create_task(looks.run(look)) for _ in range(WAIT_MOST)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyLooks):
        await looks.run(look)

    hold.set()
    await asyncio.gather(*waiting)
    assert most[0] <= AT_ONCE
    await looks.run(look)
