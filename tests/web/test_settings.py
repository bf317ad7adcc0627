"""Settings: an owner keeps users, keys, links, alerts and retention of an account, and no more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from pages_ground import ACME, Person, Service, Shown

from devstack.servers import free_port
from service.operator.accounts import add_key, find_account, keys, set_alerts
from service.operator.attempts import BOUNDS, Attempt, count_attempt
from service.operator.audit import Operator
from service.operator.invitations import invite
from service.operator.keys import PREFIX_CHARACTERS, Scope
from service.operator.quotas import Quota, set_quotas
from service.operator.users import Role, find_user
from tracking.request import MAIN

PARCEL = {"slug": "usps", "number": "9405903699300184125060"}
OWNERS_PAGES = ("users", "keys", "alerts", "retention")
PASSWORD = "correct horse battery"  # noqa: S105 - of a test


class Sink:
    """A mail server that keeps what it takes, and answers `answer`."""

    def __init__(self) -> None:
        self.mails: list[Envelope] = []
        self.answer = "250 taken as 4711"

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _: SMTP, __: Session, envelope: Envelope
    ) -> str:
        self.mails.append(envelope)
        return self.answer


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def more_settings(port: int) -> dict[str, str]:
    return {
        "TRACKER_MAIL__HOST": "127.0.0.1",
        "TRACKER_MAIL__PORT": f"{port}",
        "TRACKER_MAIL__TLS": "none",
        "TRACKER_MAIL__SENDER": "tracker@tracker.example",
    }


@pytest.fixture
def sink(port: int) -> Iterator[Sink]:
    kept = Sink()
    controller = Controller(kept, hostname="127.0.0.1", port=port)
    controller.start()
    yield kept
    controller.stop()


def shown_once(page: Shown, name: str) -> str:
    """What a page shows this once, under its id."""
    return str(page.tree.get_element_by_id(name).text)


def make_key(person: Person, *scopes: str) -> Shown:
    ticked = dict.fromkeys(scopes, "1")
    return person.submit(person.get("/settings/keys"), "/settings/keys", **ticked)


def make_link(person: Person, **more: str) -> Shown:
    return person.submit(person.get("/settings/links"), "/settings/links", **PARCEL | more)


def run_curl(stranger: Person, text: str) -> int:
    """Do what a curl command would; tells the status."""
    program, *words = shlex.split(text)
    given = list(zip(words[::2], words[1::2], strict=False))
    headers = dict(value.split(": ") for option, value in given if option == "-H")
    body = dict(given).get("-d", "").encode()
    assert (program, words[-1].startswith(stranger.url)) == ("curl", True)
    path = urlsplit(words[-1]).path
    return stranger.ask("POST" if body else "GET", path, body, headers).status


def recorded(service: Service, act: str) -> dict[str, object]:
    """The last record of an act."""
    found = service.stores.audit.find_one({"act": act}, sort=[("at", -1)])
    assert found is not None
    return found


@pytest.mark.parametrize("scope", ["read", "ingest", "hooks", "admin"])
def test_a_key_is_shown_once_with_a_curl_that_works(
    service: Service, owner: Person, stranger: Person, scope: str
) -> None:
    made = make_key(owner, scope)
    key = shown_once(made, "key")

    assert run_curl(stranger, shown_once(made, "curl")) in {200, 202}
    listed = owner.get("/settings/keys").text
    assert key[:PREFIX_CHARACTERS] in listed
    assert key not in listed
    assert recorded(service, "key add")["user"] == "owner@main.example"


def test_a_key_ends_after_the_days_that_were_typed_and_has_the_rate_that_was(
    service: Service, owner: Person
) -> None:
    page = owner.get("/settings/keys")
    made = owner.submit(page, "/settings/keys", read="1", days="90", per_second="2.5")
    prefix = shown_once(made, "key")[:PREFIX_CHARACTERS]

    [kept] = [each for each in keys(service.stores, MAIN) if each.prefix == prefix]
    assert kept.per_second == 2.5
    assert kept.ends_at
    assert (kept.ends_at - kept.made_at).days == 90
    assert "2.5 a second" in owner.get("/settings/keys").words
    for wrong in ({"days": "0"}, {"days": "soon"}, {"per_second": "nan"}):
        assert owner.submit(page, "/settings/keys", read="1", **wrong).status == 422


def test_a_key_for_nothing_is_not_made(owner: Person) -> None:
    assert make_key(owner).status == 422


def test_keys_for_operators_are_made_by_owners_of_main_alone(acme: Person) -> None:
    page = acme.get("/settings/keys")
    assert "admin" not in page.form("/settings/keys").fields
    token = page.form("/settings/keys").fields["csrf"]

    assert acme.post("/settings/keys", {"csrf": token, "admin": "1"}).status == 422


def test_a_key_that_is_rotated_works_on_as_long_as_was_chosen(
    service: Service, owner: Person, stranger: Person
) -> None:
    prefix = shown_once(make_key(owner, "read"), "key")[:PREFIX_CHARACTERS]
    path = f"/settings/keys/{prefix}/rotate"

    made = owner.submit(owner.get(path), path, keep="3600")

    old = next(each for each in keys(service.stores, MAIN) if each.prefix == prefix)
    assert old.ends_at is not None
    assert run_curl(stranger, shown_once(made, "curl")) == 200
    assert recorded(service, "key rotate")["user"] == "owner@main.example"


def test_a_key_is_revoked_after_a_question(service: Service, owner: Person) -> None:
    prefix = shown_once(make_key(owner, "read"), "key")[:PREFIX_CHARACTERS]
    path = f"/settings/keys/{prefix}/revoke"

    asked = owner.get(path)
    assert prefix in asked.heading
    owner.submit(asked, path)

    assert owner.get(path).status == 404
    assert recorded(service, "key revoke")["target"] == {"key": prefix}


def test_a_secret_link_starts_a_check_until_it_is_revoked(
    service: Service, member: Person, stranger: Person
) -> None:
    made = make_link(member, title="Order 7")
    path = urlsplit(shown_once(made, "link")).path
    assert stranger.ask("POST", path, b"", {}).status == 201

    listed = member.get("/settings/links")
    assert "Order 7" in listed.words
    assert path not in listed.text
    [revoke] = listed.tree.xpath("//a[text()='Revoke']/@href")
    member.submit(member.get(revoke), revoke)

    assert stranger.ask("POST", path, b"", {}).status == 404
    assert recorded(service, "link revoke")["user"] == "member@main.example"


def test_a_link_for_no_parcel_is_not_made_and_nothing_typed_is_lost(member: Person) -> None:
    refused = make_link(member, slug="no-such-courier", title="Order 8")

    assert refused.status == 422
    assert refused.form("/settings/links").fields["title"] == "Order 8"


def test_a_test_mail_is_sent_and_the_page_says_what_the_server_answered(
    service: Service, acme: Person, sink: Sink
) -> None:
    saved = acme.submit(acme.get("/settings/alerts"), "/settings/alerts", alerts="me@acme.example")
    assert find_account(service.stores, ACME).alerts == "me@acme.example"

    sent = acme.submit(saved, "/settings/alerts/test")

    assert "taken as 4711" in sent.words
    [mail] = sink.mails
    assert mail.rcpt_tos == ["me@acme.example"]
    sink.answer = "550 no such mailbox"
    refused = acme.submit(saved, "/settings/alerts/test")
    assert (refused.status, "no such mailbox" in refused.words) == (502, True)
    assert recorded(service, "account test-mail")["user"] == "owner@acme.example"


def test_test_mails_are_few(service: Service, owner: Person) -> None:
    set_alerts(service.stores, Operator(), MAIN, "me@main.example")
    for _ in range(BOUNDS[Attempt.TEST_MAIL].email):
        count_attempt(service.stores, Attempt.TEST_MAIL, MAIN)

    page = owner.get("/settings/alerts")
    assert owner.submit(page, "/settings/alerts/test").status == 429


def test_alerts_go_to_no_address_that_is_none(owner: Person) -> None:
    page = owner.get("/settings/alerts")

    refused = owner.submit(page, "/settings/alerts", alerts="me\r\nBcc: all@main.example")

    assert refused.status == 422


def test_an_account_keeps_relayed_requests_as_long_as_it_likes(
    service: Service, acme: Person
) -> None:
    page = acme.get("/settings/retention")

    for days in ("0", "91", "-1", "1.5", "ten", "٣"):
        assert acme.submit(page, "/settings/retention", days=days).status == 422
    shown = acme.submit(page, "/settings/retention", days="77")
    assert "Relayed requests, from their end77of your account" in shown.words
    assert recorded(service, "account set")["user"] == "owner@acme.example"
    acme.submit(page, "/settings/retention", days="")
    assert find_account(service.stores, ACME).inbox_keep_days is None


def test_an_account_sees_its_quotas_and_what_is_used_of_them(
    service: Service, acme: Person, viewer: Person
) -> None:
    set_quotas(service.config, service.stores, Operator(), ACME, {Quota.PARCELS: 5_000})

    [row] = acme.get("/settings").tree.xpath("//tr[td[text()='Parcels that are followed']]")
    assert [each.text for each in row][1:3] == ["5,000", "0"]
    assert "5,000" not in viewer.get("/settings").words


def invite_by_page(person: Person, email: str, by: str = "link", role: str = "member") -> Shown:
    page = person.get("/settings/users")
    return person.submit(page, "/settings/users", email=email, by=by, role=role)


def test_an_invitation_is_a_link_shown_once_by_which_somebody_becomes_a_user(
    service: Service, acme: Person, stranger: Person
) -> None:
    link = urlsplit(shown_once(invite_by_page(acme, "new@acme.example"), "link")).path
    assert link not in acme.get("/settings/users").text

    stranger.submit(stranger.get(link), link, password=PASSWORD, again=PASSWORD)

    found = find_user(service.stores, "new@acme.example")
    assert found is not None
    assert (found.account, found.role) == (ACME, Role.MEMBER)
    assert invite_by_page(acme, "new@acme.example").status == 422


def test_an_invitation_goes_by_mail(service: Service, acme: Person) -> None:
    shown = invite_by_page(acme, "post@acme.example", by="mail")

    assert "post@acme.example is sent an invitation" in shown.words
    assert service.stores.mails.find_one({"to": "post@acme.example"}) is not None


def test_an_invitation_that_is_withdrawn_opens_nothing(acme: Person, stranger: Person) -> None:
    link = urlsplit(shown_once(invite_by_page(acme, "away@acme.example"), "link")).path
    page = acme.get("/settings/users")

    acme.submit(page, "/settings/invitations/away%40acme.example/withdraw")

    assert stranger.get(link).status == 410


def test_a_user_is_given_another_role_signed_out_and_removed(
    service: Service, acme: Person
) -> None:
    theirs = service.person("member", ACME)
    one = "/settings/users/member%40acme.example"

    acme.submit(acme.get(one), f"{one}/role", role="viewer")
    assert recorded(service, "user role")["user"] == "owner@acme.example"
    assert theirs.get("/settings/links").tree.xpath("//form[@action='/settings/links']") == []
    acme.submit(acme.get(one), f"{one}/sign-out")
    assert theirs.get("/settings").status == 303
    acme.submit(acme.get(f"{one}/remove"), f"{one}/remove")
    assert find_user(service.stores, "member@acme.example") is None


def test_an_account_keeps_an_owner(acme: Person) -> None:
    one = "/settings/users/owner%40acme.example"

    for refused in (
        acme.submit(acme.get(f"{one}/remove"), f"{one}/remove"),
        acme.submit(acme.get(one), f"{one}/role", role="viewer"),
    ):
        assert (refused.status, "the only owner" in refused.words) == (409, True)


def test_settings_of_owners_are_refused_to_others_with_a_sentence(
    member: Person, viewer: Person
) -> None:
    for person in (member, viewer):
        for name in OWNERS_PAGES:
            refused = person.get(f"/settings/{name}")
            assert (refused.status, "ask an owner" in refused.words) == (403, True)
    assert make_link(member).status == 200
    assert viewer.get("/settings/links").status == 200
    token = viewer.get("/settings").form("/logout").fields["csrf"]
    assert viewer.post("/settings/links", PARCEL | {"csrf": token}).status == 403


@pytest.fixture
def theirs(service: Service, acme: Person) -> list[str]:
    """Where acts on a key, a link, a user and an invitation of `acme` are."""
    made = add_key(service.stores, Operator(), ACME, [Scope.READ])
    make_link(acme)
    link = service.stores.links.find_one({"account": ACME}) or {}
    service.person("viewer", ACME)
    invite(service.stores, Operator(), "guest@acme.example", ACME, Role.VIEWER)
    user, guest = quote("viewer@acme.example"), quote("guest@acme.example")
    return [
        *(f"/settings/keys/{made.text[:PREFIX_CHARACTERS]}/{act}" for act in ("revoke", "rotate")),
        f"/settings/links/{link['_id']}/revoke",
        *(f"/settings/users/{user}/{act}" for act in ("role", "sign-out", "password", "remove")),
        f"/settings/invitations/{guest}/withdraw",
    ]


def test_what_another_account_has_is_not_there(
    service: Service, owner: Person, theirs: list[str]
) -> None:
    before = (service.stores.keys.count_documents({"ends_at": None}), service.stores.audit)
    token = owner.get("/settings").form("/logout").fields["csrf"]

    for path in theirs:
        assert owner.get(path).status in {404, 405}
        posted = owner.post(path, {"csrf": token, "role": "owner", "keep": "0"})
        assert posted.status == 404, path
    assert owner.get("/settings/users/viewer%40acme.example").status == 404

    assert service.stores.keys.count_documents({"ends_at": None}) == before[0]
    assert service.stores.links.count_documents({"account": ACME}) == 1
    kept = find_user(service.stores, "viewer@acme.example")
    assert kept is not None
    assert kept.role is Role.VIEWER
    for name in ("keys", "links", "users"):
        assert "acme" not in owner.get(f"/settings/{name}").tree.text_content()
