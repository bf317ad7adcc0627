"""Links by which somebody chooses a password, against a real MongoDB."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

import pytest
from msgspec import structs
from people import ACME, ANNA, BEN, HERE, OWNER, PASSWORD, add, at_once

from service.config.schema import Config, Http, Redis, Web
from service.operator import invitations, users
from service.operator.accounts import remove_account
from service.operator.audit import Operator, Via
from service.operator.connections import Collections
from service.operator.invitations import Invitation, Purpose, accept, find_link
from service.operator.sessions import find_session, open_session, open_session_of
from service.operator.users import Role, User
from service.worker.results.database import Document
from tracking.errors import NotDone
from tracking.request import MAIN, Account

DEFAULT = Config()


def invited(stores: Collections, email: str = BEN, role: Role = Role.MEMBER) -> str:
    return invitations.invite(stores, OWNER, email, ACME, role)


def taken(
    stores: Collections, token: str, email: str, password: str, config: Config = DEFAULT
) -> User:
    return accept(stores, config, token, email, password)


def mails(stores: Collections) -> list[Document]:
    return list(stores.mails.find().sort("made_at"))


def token_in(mail: Document) -> str:
    [link] = [line for line in mail["text"].splitlines() if line.startswith("http")]
    return str(link).rpartition("/")[2]


def test_somebody_who_is_invited_becomes_a_user_in_that_account_and_role(
    stores: Collections,
) -> None:
    user = taken(stores, invited(stores), "somebody@else.example", PASSWORD)

    assert (user.email, user.account, user.role) == (BEN, "acme", Role.MEMBER)
    assert open_session(stores, BEN, PASSWORD)
    kept = stores.audit.find_one({"act": "user add"}) or {}
    assert (kept["via"], kept["user"], kept["account"]) == ("web", BEN, "acme")


def test_a_link_works_once(stores: Collections) -> None:
    token = invited(stores)
    taken(stores, token, "", PASSWORD)

    with pytest.raises(NotDone, match="used already"):
        taken(stores, token, "", "another horse battery")

    assert open_session(stores, BEN, PASSWORD)


def test_of_many_who_use_a_link_at_once_one_becomes_the_user(stores: Collections) -> None:
    token, came = invitations.first_owner(stores, HERE), list[str]()

    def use(number: int) -> None:
        with suppress(NotDone):
            came.append(taken(stores, token, f"{number}@acme.example", PASSWORD).email)

    at_once(use, range(8))

    assert [each.email for each in users.users(stores)] == came
    assert len(came) == 1


@pytest.mark.parametrize(
    ("purpose", "lasts"),
    [
        (Purpose.FIRST, dt.timedelta(minutes=30)),
        (Purpose.INVITE, dt.timedelta(hours=24)),
        (Purpose.PASSWORD, dt.timedelta(hours=24)),
    ],
)
def test_a_link_ends_by_itself(stores: Collections, purpose: Purpose, lasts: dt.timedelta) -> None:
    if purpose is Purpose.FIRST:
        token = invitations.first_owner(stores, HERE)
    elif purpose is Purpose.INVITE:
        token = invited(stores)
    else:
        add(stores)
        token = invitations.password_link(stores, HERE, ANNA)

    [kept] = stores.invitations.find()
    assert kept["ends_at"] - kept["made_at"] == lasts
    stores.invitations.update_one({}, {"$set": {"ends_at": dt.datetime.now(dt.UTC)}})
    assert find_link(stores, token) is None
    with pytest.raises(NotDone, match="ended"):
        taken(stores, token, BEN, PASSWORD)


def test_of_a_link_only_a_hash_is_kept(stores: Collections) -> None:
    token = invited(stores)

    assert len(token) >= 43
    assert token not in str(list(stores.invitations.find()))
    assert token not in str(list(stores.audit.find()))


def test_a_newer_link_for_the_same_ends_the_one_before(stores: Collections) -> None:
    old, new = invited(stores), invited(stores, role=Role.VIEWER)

    assert find_link(stores, old) is None
    found = find_link(stores, new)
    assert found
    assert found.role is Role.VIEWER


def test_a_password_that_is_refused_uses_no_link(stores: Collections) -> None:
    token = invited(stores)

    with pytest.raises(NotDone, match="characters"):
        taken(stores, token, "", "short")

    assert taken(stores, token, "", PASSWORD).email == BEN


def test_the_first_owner_is_made_where_there_is_no_user_and_nowhere_else(
    stores: Collections,
) -> None:
    token = invitations.first_owner(stores, HERE)
    with pytest.raises(NotDone, match="no address"):
        taken(stores, token, "anna", PASSWORD)
    user = taken(stores, token, "Anna@Acme.example", PASSWORD)

    assert (user.email, user.account, user.role) == (ANNA, MAIN, Role.OWNER)
    with pytest.raises(NotDone, match="there are users already"):
        invitations.first_owner(stores, HERE)


def test_a_link_for_the_first_owner_ends_when_somebody_else_becomes_a_user(
    stores: Collections,
) -> None:
    token = invitations.first_owner(stores, HERE)
    add(stores)

    with pytest.raises(NotDone, match="there are users already"):
        taken(stores, token, BEN, PASSWORD)


def test_owners_invite_into_their_own_account_alone(stores: Collections) -> None:
    with pytest.raises(NotDone, match="no account main"):
        invitations.invite(stores, OWNER, BEN, MAIN, Role.OWNER)

    operator = Operator(account=MAIN, via=Via.WEB, user="op@tracker.example")
    assert invitations.invite(stores, operator, BEN, ACME, Role.OWNER)
    with pytest.raises(NotDone, match="no account nope"):
        invitations.invite(stores, HERE, BEN, Account("nope"), Role.OWNER)


def test_an_owner_who_invites_does_not_hear_that_another_account_has_the_user(
    stores: Collections,
) -> None:
    add(stores, BEN, MAIN)

    token = invited(stores)

    with pytest.raises(NotDone, match="there is a user"):
        taken(stores, token, "", "another horse battery")
    assert open_session(stores, BEN, PASSWORD)
    assert [each.account for each in users.users(stores)] == [MAIN]


def test_a_removed_account_takes_nobody_in(stores: Collections) -> None:
    token = invited(stores)
    remove_account(stores, ACME)

    with pytest.raises(NotDone):
        taken(stores, token, "", PASSWORD)

    assert users.users(stores) == []


def test_a_link_for_a_password_ends_sessions_and_the_old_password(stores: Collections) -> None:
    add(stores)
    text = open_session_of(stores, ANNA) or ""

    taken(stores, invitations.password_link(stores, OWNER, ANNA), "", "another horse battery")

    assert find_session(stores, text) is None
    assert open_session(stores, ANNA, PASSWORD) is None
    assert open_session(stores, ANNA, "another horse battery")


def test_a_link_for_a_password_ends_when_the_password_is_changed_otherwise(
    stores: Collections,
) -> None:
    add(stores)
    token = invitations.password_link(stores, OWNER, ANNA)

    users.change_password(stores, OWNER, PASSWORD, "another horse battery")

    assert find_link(stores, token) is None


def test_a_link_for_a_password_of_one_account_opens_no_user_of_another(stores: Collections) -> None:
    add(stores, BEN)
    add(stores)
    token = invitations.password_link(stores, OWNER, BEN)
    users.remove_user(stores, OWNER, BEN)
    add(stores, BEN, MAIN)

    with pytest.raises(NotDone, match="no user"):
        taken(stores, token, "", "another horse battery")

    assert open_session(stores, BEN, PASSWORD)


def test_an_owner_gives_no_password_link_of_another_account(stores: Collections) -> None:
    add(stores, BEN, MAIN)

    with pytest.raises(NotDone, match="there is no user"):
        invitations.password_link(stores, OWNER, BEN)


def test_a_reset_mails_a_link_to_who_is_a_user_and_nothing_to_others(
    stores: Collections, config: Config
) -> None:
    add(stores)
    invitations.ask_for_reset(stores, config, "nobody@acme.example")
    assert mails(stores) == []

    invitations.ask_for_reset(stores, config, ANNA)

    [mail] = mails(stores)
    assert mail["to"] == ANNA
    found = find_link(stores, token_in(mail))
    assert found
    assert (found.purpose, found.email) == (Purpose.PASSWORD, ANNA)
    [kept] = stores.invitations.find()
    assert kept["ends_at"] - kept["made_at"] == dt.timedelta(hours=1)


def test_the_address_in_a_mail_is_that_of_the_settings(config: Config) -> None:
    outside = structs.replace(config, http=Http(public_url="https://track.example.com"))

    assert invitations.address_of(outside, "t") == "https://track.example.com/welcome/t"
    assert invitations.address_of(config, "t") == "http://127.0.0.1:8080/welcome/t"


def test_a_domain_signs_up_as_viewers_of_the_account_that_is_set(
    stores: Collections, config: Config
) -> None:
    web = Web(sign_up="domain", sign_up_domains=("acme.example",), sign_up_account="acme")
    config = structs.replace(config, web=web)
    for email in ("eve@evil.example", "eve@sub.acme.example", "eve@notacme.example"):
        invitations.ask_to_sign_up(stores, config, email)
    assert mails(stores) == []

    invitations.ask_to_sign_up(stores, config, BEN)

    [mail] = mails(stores)
    user = taken(stores, token_in(mail), "eve@evil.example", PASSWORD)
    assert (user.email, user.account, user.role) == (BEN, "acme", Role.VIEWER)


def test_who_signs_up_freely_owns_a_new_account_named_after_the_e_mail_with_quotas(
    stores: Collections, config: Config, redis_url: str
) -> None:
    web = Web(sign_up="open", sign_up_calls_a_day=7, sign_up_parcels=5)
    config = structs.replace(config, web=web, redis=Redis(url=redis_url))
    for email in ("acme@one.example", "acme+news@two.example", "!@three.example"):
        invitations.ask_to_sign_up(stores, config, email)

    made = [taken(stores, token_in(mail), "", PASSWORD, config) for mail in mails(stores)]

    accounts = [each.account for each in made]
    assert all(each.role is Role.OWNER for each in made)
    assert len({*accounts, "acme", MAIN}) == 5
    assert accounts[0].startswith("acme")
    assert accounts[1:] == ["acmenews", "account"]
    kept = stores.accounts.find_one({"_id": "account"}) or {}
    quotas = (kept["calls_a_day"], kept["parcels"], kept["requests_a_minute"])
    assert quotas == (7, 5, 300)
    [act] = stores.audit.find({"act": "account add", "target.account": "account"})
    assert (act["via"], act["user"]) == ("web", "!@three.example")


def test_who_signs_up_and_is_a_user_already_gets_a_link_for_the_password(
    stores: Collections, config: Config
) -> None:
    add(stores)

    invitations.ask_to_sign_up(stores, structs.replace(config, web=Web(sign_up="open")), ANNA)

    [mail] = mails(stores)
    found = find_link(stores, token_in(mail))
    assert found
    assert found.purpose is Purpose.PASSWORD


def test_a_link_says_what_it_is_for_before_it_is_used(stores: Collections) -> None:
    token = invited(stores)

    assert find_link(stores, token) == Invitation(Purpose.INVITE, BEN, ACME, Role.MEMBER)
    assert find_link(stores, token)
