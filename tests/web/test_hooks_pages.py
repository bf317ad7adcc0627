"""Pages of services, deliveries and the inbox, as people without a script see and use them."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from typing import Any

import pytest
from pages_ground import ACME, ROOT, Person, Service, Shown
from webhook_ground import (
    KEY,
    NOTED_AT,
    foreign,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
    stored,
)

from service.operator import service_view
from service.web.deliveries import PAGE_MOST
from service.worker.deliveries.delivery import DeliveryState, delivery_in, document_of
from service.worker.deliveries.mail import About, MailText, write_mail
from service.worker.deliveries.service import ServiceState
from service.worker.deliveries.signing import standard
from service.worker.deliveries.standing import beginning, day_name
from service.worker.deliveries.words import words_of
from tracking.request import MAIN

HOSTILE = "<script>alert(1)</script><svg onload=alert(1)>"
HOUR = dt.timedelta(hours=1)


@pytest.fixture(scope="module")
def more_settings() -> dict[str, str]:
    return {"TRACKER_WEBHOOKS__KEYS": KEY}


@pytest.fixture(autouse=True)
def clean(service: Service) -> None:
    for each in ("services", "events", "deliveries", "attempts", "mails", "alerts", "audit"):
        service.stores.named(each).delete_many({})


def acts(service: Service) -> list[tuple[str, dict[str, Any]]]:
    found = service.stores.audit.find({"via": "web"}).sort("at")
    return [(each["act"], each["target"]) for each in found]


def make(owner: Person, name: str, kind: str = "webhook", **fields: object) -> Shown:
    given = {"destination": f"https://{name}.example/hooks"} | fields
    page = owner.get(f"/services/-/new?type={kind}")
    return owner.submit(page, "/services/-/new", name=name, **given)


def secret_in(page: Shown) -> str:
    return page.tree.get_element_by_id("secret").text.strip()


def test_a_service_is_made_and_its_secret_shown_once_with_programs_that_verify(
    service: Service, owner: Person
) -> None:
    made = make(owner, "orders", per_second="7", headers="X-Shop: s3cret", slugs="dpd, ups")

    assert secret_in(made).startswith("whsec_")
    assert "WEBHOOK_SECRET" in made.words
    for language, end in (("python", "py"), ("node", "js"), ("php", "php")):
        program = made.tree.get_element_by_id(f"verify-{language}").text.strip()
        example = (ROOT / f"examples/verify_webhook.{end}").read_text().splitlines()
        assert set(program.splitlines()) <= set(example)
    shown = owner.get("/services/orders")
    assert secret_in(made) not in shown.text
    assert "s3cret" not in shown.text
    assert "Headers of its own X-Shop" in shown.words
    [kept] = service.stores.services.find()
    assert (kept["per_second"], kept["slugs"]) == (7, ["dpd", "ups"])
    [(act, target)] = acts(service)
    assert (act, target["set"]) == (
        "service make",
        ["destination", "headers", "per_second", "slugs", "type"],
    )


def test_the_program_that_is_shown_takes_what_we_sign_and_nothing_else(owner: Person) -> None:
    made, space = make(owner, "orders"), dict[str, Any]()
    secret, body = secret_in(made), b"{}"
    exec(made.tree.get_element_by_id("verify-python").text, space)  # noqa: S102 - as people paste it
    headers = standard([secret], "msg_1", int(time.time()), body)

    assert space["verify"](secret, headers, body)
    assert not space["verify"](secret, headers, b"{ }")
    assert not space["verify"]("whsec_" + "A" * 43 + "=", headers, body)


def test_programs_that_verify_a_relay_read_its_headers(service: Service, owner: Person) -> None:
    made = make(owner, "shop", "relay", **{"ingest.dedupe_header": "X-Id"})

    python = made.tree.get_element_by_id("verify-python").text.strip()
    assert "relay-signature" in python
    assert "webhook-" not in python
    assert "HTTP_RELAY_ID" in made.tree.get_element_by_id("verify-php").text
    assert f"{service.config.ingest.listen}/" in made.tree.get_element_by_id("address-1").text


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("destination", "http://shop.example/", "https"),
        ("destination", "", "say where deliveries go"),
        ("name", "My shop", "1 to 20"),
        ("per_second", "many", "how many attempts"),
        ("timeout_seconds", "soon", "could not convert"),
        ("headers", "no colon", "Name: value"),
        ("slugs", "nobody-1", "is no courier"),
    ],
)
def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(
    service: Service, owner: Person, field: str, text: str, why: str
) -> None:
    typed = {"name": "orders", "destination": "https://orders.example/", field: text}
    page = owner.get("/services/-/new")
    wrong = owner.submit(page, "/services/-/new", **typed)

    assert wrong.status == 422
    assert why in wrong.tree.get_element_by_id(f"{field}-says").text
    assert wrong.form("/services/-/new").fields[field].strip() == text
    assert service.stores.services.count_documents({}) == 0


def test_only_what_is_another_in_the_form_is_changed(service: Service, owner: Person) -> None:
    kept = store_service(service.stores, "orders", headers={"X-A": "s3cret"})
    path = "/services/orders/edit"
    same = owner.submit(owner.get(path), path)
    changed = owner.submit(owner.get(path), path, ordered="on", events=["parcel.delivered"])
    without = owner.submit(owner.get(path), path, **{"headers.none": "on", "attempts": "3"})

    assert "Nothing was changed" in same.words
    assert "It is changed" in changed.words
    assert "Headers of its own none" in without.words
    assert [target["set"] for _, target in acts(service)] == [
        ["events", "ordered"],
        ["attempts", "headers"],
    ]
    now = service.stores.services.find_one({"_id": kept.id})
    assert now
    assert (now["ordered"], now["events"], now["attempts"]) == (True, ["parcel.delivered"], 3)


def test_a_service_is_paused_goes_on_has_its_secret_rotated_and_is_deleted_by_its_name(
    owner: Person,
) -> None:
    first, path = secret_in(make(owner, "orders")), "/services/orders"
    paused = owner.submit(owner.get(path), f"{path}/state", state="paused")
    resumed = owner.submit(paused, f"{path}/state", state="active")
    rotated = owner.submit(owner.get(f"{path}/rotate"), f"{path}/rotate")
    wrong = owner.submit(owner.get(f"{path}/delete"), f"{path}/delete", typed="order")
    gone = owner.submit(wrong, f"{path}/delete", typed="orders")

    assert "State paused" in paused.words
    assert "State active" in resumed.words
    assert secret_in(rotated) not in {"", first}
    assert "signed by the secret of before" in rotated.words
    assert (wrong.status, "type the name" in wrong.words) == (422, True)
    assert "The service orders is deleted" in gone.words
    assert owner.get(path).status == 404


def test_a_page_of_a_service_says_how_it_does(service: Service, owner: Person) -> None:
    hook = store_service(service.stores, "orders", disabled_why="gone", disabled_at=NOTED_AT)
    for state in (DeliveryState.HELD, DeliveryState.HELD, DeliveryState.OPEN):
        last = store_delivery(service.stores, hook, state=state)
    for number in range(1, 8):
        store_attempt(service.stores, last, number, failure="server_error", status=502)
    now = dt.datetime.now(dt.UTC)
    day = beginning(now - HOUR, dt.timedelta(days=1))
    part = {"attempts": 40, "failed": 10}
    service.stores.statistics.insert_one(
        {"_id": day_name(day, hook.id), "day": day, "service": hook.id}
        | {"parts": {f"{now - HOUR:%H}10": part}}
    )

    shown = owner.get("/services/orders")

    assert "Waiting 1 Held 2" in shown.words
    assert len(shown.tree.xpath("//h3/following-sibling::div//tbody/tr")) == 5
    assert "Attempts of the last day: 40, 75.0% of them taken" in shown.words
    assert "75.0 % of 40" in owner.get("/services").words
    assert owner.get("/services/orders/now").status == 200


def test_days_that_are_over_and_other_hours_are_no_part_of_the_last_day(service: Service) -> None:
    now = dt.datetime(2026, 11, 26, 14, 20, tzinfo=dt.UTC)
    day = beginning(now, dt.timedelta(days=1))
    for at, part in ((day, "1410"), (day, "0000"), (day - 24 * HOUR, "1450"), (day, "1500")):
        service.stores.statistics.update_one(
            {"_id": day_name(at, "a")},
            {"$set": {"day": at, "service": "a", f"parts.{part}": {"attempts": 1, "failed": 0}}},
            upsert=True,
        )

    hours = service_view.hours_of(service.stores, ["a"], now)["a"]
    service.stores.statistics.delete_many({})

    assert [each.at for each in hours] == [day + (n - 9) * HOUR for n in range(24)]
    assert {each.at for each in hours if each.attempts} == {day, day + 14 * HOUR}


def test_alerts_are_shown_with_whom_they_went_to_and_when(
    service: Service, owner: Person, acme: Person
) -> None:
    hook = store_service(service.stores, "orders")
    text = MailText(f"orders fails {HOSTILE}", "since noon")
    write_mail(service.stores.mails, "a", "a@shop.example", text, About(f"service:{hook.id}", MAIN))
    over = MailText("orders is well", "")
    write_mail(service.stores.mails, "b", "a@shop.example", over, About(f"service:{hook.id}", MAIN))
    sent = {"ended_at": NOTED_AT, "tries": 1}
    service.stores.mails.update_one({"_id": "a"}, {"$set": sent})
    theirs = MailText("theirs", "")
    write_mail(service.stores.mails, "c", "x@acme.example", theirs, About("service:x", ACME))
    for_operators = About("credentials:dpd", "")
    write_mail(service.stores.mails, "d", "o@x.example", MailText("refused", ""), for_operators)
    alert = {"account": MAIN, "episode": "e", "since": NOTED_AT, "why": "failing", "grave": False}
    alert |= {"told": True, "well_since": None, "resolved_at": None}
    service.stores.alerts.insert_one({"_id": f"service:{hook.id}", **alert})

    one, mine, others = (
        owner.get("/services/orders"),
        owner.get("/services/-/alerts"),
        acme.get("/services/-/alerts"),
    )

    assert "People were alerted of trouble since 2026-11-20 12:00:00 UTC: failing" in one.words
    assert f"orders fails {HOSTILE}" in one.words
    assert "a@shop.example 2026-11-20 12:00:00 UTC" in one.words
    assert "waits" in one.words
    assert "refused" in mine.words
    assert [word in others.words for word in ("theirs", "orders", "refused")] == [
        *(True, False, False),
    ]


def test_a_test_shows_status_time_and_answer(service: Service, owner: Person) -> None:
    hook = store_service(service.stores, "orders")
    page = owner.get("/services/orders")
    token = dict(page.form("/services/orders/test").form_values())
    led = owner.post("/services/orders/test", token).headers["Location"]
    [put] = service.stores.deliveries.find({"service": hook.id})
    store_attempt(service.stores, delivery_in(put), 1, body=HOSTILE.encode())

    shown = owner.get(led)

    assert "It was not taken: server error." in shown.words
    assert "Status 500 Time 42 ms" in shown.words
    assert HOSTILE in shown.words
    assert HOSTILE not in shown.text
    assert owner.get(led.replace("orders", "others")).status == 404


def addresses(page: Shown) -> list[str]:
    return [str(each) for each in page.tree.xpath("//td[1]/a/@href")]


def test_deliveries_are_filtered_and_paged(service: Service, owner: Person) -> None:
    one, other = store_service(service.stores, "one"), store_service(service.stores, "two")
    for minutes in range(PAGE_MOST + 2):
        store_delivery(service.stores, one, minutes)
    dead = store_delivery(service.stores, other, 99, state=DeliveryState.DEAD, parcel="dpd:1")
    relayed = store_relayed(service.stores, store_relay(service.stores))

    first = owner.get("/deliveries?service=one")
    (following,) = first.tree.xpath("//a[@rel='next']/@href")
    second = owner.get(following)

    assert [len(addresses(each)) for each in (first, second)] == [PAGE_MOST, 2]
    assert not set(addresses(first)) & set(addresses(second))
    for query in ("state=dead", "parcel=dpd:1", "since=2026-11-20T13:39", "service=two"):
        assert addresses(owner.get(f"/deliveries?{query}")) == [f"/deliveries/{dead.id}"], query
    assert addresses(owner.get("/deliveries?event=relay.request")) == [f"/inbox/{relayed.id}"]
    for query in ("state=odd", "since=soon", "service=nobody", "event=x", "cursor=x"):
        assert owner.get(f"/deliveries?{query}").status == 400, query


def test_the_inbox_is_searched_by_words_status_and_relay(service: Service, owner: Person) -> None:
    relay, ids = store_relay(service.stores), []
    for topic, status in (("paid", 200), ("lost", 500)):
        request = foreign(relay, headers=(("X-Shopify-Topic", topic),))
        made = store_relayed(service.stores, relay, request, status=status)
        words = {"$set": {"words": words_of(request)}}
        service.stores.deliveries.update_one({"_id": made.id}, words)
        ids.append(f"/inbox/{made.id}")
    store_delivery(service.stores, store_service(service.stores, "hook"))

    assert sorted(addresses(owner.get("/inbox"))) == sorted(ids)
    assert addresses(owner.get("/inbox?words=Paid+orders")) == [ids[0]]
    assert addresses(owner.get("/inbox?status=500&service=shopify")) == [ids[1]]
    assert addresses(owner.get("/inbox?words=paid&status=500")) == []
    for query in ("words=%21", "status=many", "status=-1"):
        assert owner.get(f"/inbox?{query}").status == 400, query


HOSTILE_BODIES = {
    "script": HOSTILE.encode(),
    "json": b'{"a": "' + HOSTILE.encode() + b'"}',
    "form": b"a=" + HOSTILE.encode(),
    "control": bytes(range(1, 32)) * (1 << 15),
    "png": b"\x89PNG" + HOSTILE.encode(),
}


@pytest.mark.parametrize("kind", list(HOSTILE_BODIES))
def test_a_hostile_request_is_shown_harmlessly_and_downloaded_as_it_came(
    service: Service, owner: Person, kind: str
) -> None:
    body = HOSTILE_BODIES[kind]
    headers = (
        ("Content-Type", "application/x-www-form-urlencoded" if kind == "form" else "text/html"),
        ("X-Long", HOSTILE + "<" * 8_192),
        ("X-B", "1"),
        ("X-B", "2"),
    )
    target = "/a?b=%3Cscript%3E<script>"
    relay = store_relay(service.stores)
    request = foreign(relay, headers=headers, body=body, target=target)
    relayed = store_relayed(service.stores, relay, request)
    row = {"body": HOSTILE.encode(), "headers": {"x-answer": HOSTILE}}
    store_attempt(service.stores, relayed, 1, **row)
    service.stores.deliveries.update_one({"_id": relayed.id}, {"$set": {"made": 1}})

    page = owner.get(f"/inbox/{relayed.id}")
    file = owner.get(f"/inbox/{relayed.id}/body")

    assert len(page.body) < 150_000
    assert "<script>alert" not in page.text
    assert page.tree.xpath("//svg | //*[@onload] | //img | //iframe | //script[text()]") == []
    names = page.tree.xpath("//h2[.='Headers']/following-sibling::div//th[@scope='row']/text()")
    assert names == ["Content-Type", "X-Long", "X-B", "X-B"]
    assert HOSTILE in page.words
    assert file.body == body
    assert file.headers["Content-Type"] == "application/octet-stream"
    assert file.headers["X-Content-Type-Options"] == "nosniff"
    assert file.headers["Content-Disposition"].startswith("attachment;")
    assert "script-src 'self'" in file.headers["Content-Security-Policy"]


def test_an_edited_copy_names_the_old_one_which_stays(service: Service, owner: Person) -> None:
    relay = store_relay(service.stores)
    body = b"line 1\nline 2\n<textarea>"
    old = store_relayed(service.stores, relay, foreign(relay, body=body))
    path = f"/inbox/{old.id}/edit"
    page = owner.get(path)
    text = page.form(path).fields["body"].lstrip("\n").replace("\n", "\r\n")
    given = {"body": text.replace("2", "3"), "headers": "X-A: ü\r\nX-A: 2", "method": "PUT"}

    made = owner.submit(page, path, **given)
    again = owner.submit(page, path, **given)
    other = owner.submit(page, path, **(given | {"method": "PATCH"}))
    same = owner.submit(owner.get(path), path, body=text)

    assert made.path == again.path != other.path
    assert f"Edited copy of {old.id}" in made.words
    [event] = service.stores.events.find({"request.method": "PUT"})
    assert event["request"]["headers"] == [["X-A", "ü"], ["X-A", "2"]]
    assert event["request"]["edited_from"] == old.id
    assert event["bodies"]["relay"] == b"line 1\nline 3\n<textarea>"
    assert owner.get(f"{same.path}/body").body == body
    assert owner.get(f"/inbox/{old.id}/body").body == body
    assert service.stores.deliveries.count_documents({}) == 4


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("headers", "X A: 1", "is no header that can be sent"),
        ("headers", "X-A", "as Name: value"),
        ("headers", "X-A: \u20ac", "is no header that can be sent"),
        ("target", "/a/../b", "begin with /"),
        ("method", "CONNECT", "write a method like POST"),
    ],
)
def test_a_copy_is_checked_before_it_goes(
    service: Service, owner: Person, field: str, text: str, why: str
) -> None:
    old = store_relayed(service.stores, store_relay(service.stores))
    path = f"/inbox/{old.id}/edit"
    wrong = owner.submit(owner.get(path), path, **{field: text})

    assert wrong.status == 422
    assert why in wrong.tree.get_element_by_id(f"{field}-says").text
    assert wrong.form(path).fields[field].strip() == text
    assert service.stores.deliveries.count_documents({}) == 1


def test_a_delivery_is_sent_again_and_cancelled(service: Service, owner: Person) -> None:
    hook = store_service(service.stores, "orders")
    one = store_delivery(service.stores, hook, state=DeliveryState.DEAD, why="timeout")
    store_attempt(service.stores, one, 1, body=HOSTILE.encode())
    path = f"/deliveries/{one.id}"

    shown = owner.get(path)
    resent = owner.submit(shown, f"{path}/resend")
    state = stored(service.stores, one).state
    cancelled = owner.submit(resent, f"{path}/cancel")

    assert '"tag": "InTransit"' in shown.words
    assert "curl" in shown.words
    assert HOSTILE in shown.words
    assert "It is sent again now" in resent.words
    assert state is DeliveryState.OPEN
    assert "State cancelled" in cancelled.words
    assert owner.get(f"{path}/body").headers["Content-Disposition"].startswith("attachment;")
    assert [act for act, _ in acts(service)] == ["delivery resend", "delivery cancel"]


def test_a_relayed_request_has_a_page_of_its_own(service: Service, owner: Person) -> None:
    one = store_relayed(service.stores, store_relay(service.stores))

    assert owner.open(f"/deliveries/{one.id}").path == f"/inbox/{one.id}"


@pytest.mark.prove
def test_all_that_a_filter_means_are_counted_and_sent_again_in_steps_that_can_be_stopped(
    service: Service, owner: Person
) -> None:
    hook, other = store_service(service.stores, "one"), store_service(service.stores, "two")
    one = store_delivery(service.stores, hook, state=DeliveryState.DEAD)
    copies = [replace(one, id=f"A{n}") for n in range(1_002)]
    service.stores.deliveries.insert_many(map(document_of, copies))
    left = store_delivery(service.stores, other, state=DeliveryState.DEAD)
    path = "/deliveries/all"

    asked = owner.get(f"{path}?service=one&since=2026-11-01&done=500&cursor=1.a")
    begun = owner.submit(asked, path)
    half = service.stores.deliveries.count_documents({"state": "open"})
    ended = owner.submit(begun, path)

    assert "How many 1,003" in asked.words
    assert "those that are dead or held" in asked.words
    assert asked.form(path).get("hx-trigger") is None
    assert "Sent again 1,000 More are meant" in begun.words
    assert half == 1_000
    assert begun.tree.xpath("//a[.='Stop']/@href") == ["/deliveries?service=one&since=2026-11-01"]
    assert "Sent again 1,003 That were all" in ended.words
    assert service.stores.deliveries.count_documents({"state": "open"}) == 1_003
    assert stored(service.stores, left).state is DeliveryState.DEAD


def test_what_is_not_sent_again_is_named_with_its_reason(service: Service, owner: Person) -> None:
    hook = store_service(service.stores, "one", state=ServiceState.DISABLED)
    one = store_delivery(service.stores, hook, state=DeliveryState.HELD)

    begun = owner.submit(owner.get("/deliveries/all?service=one"), "/deliveries/all")

    assert "Not sent again 1" in begun.words
    assert "its service one is disabled" in begun.words
    assert begun.tree.xpath(f"//a[.='{one.id}']")


@pytest.mark.prove
def test_nothing_of_it_is_there_for_another_account_and_a_viewer_changes_nothing(
    service: Service, owner: Person, acme: Person, viewer: Person
) -> None:
    hook = store_service(service.stores, "orders")
    one = store_delivery(service.stores, hook, state=DeliveryState.DEAD)
    relayed = store_relayed(service.stores, store_relay(service.stores))
    read = [f"/services/orders{each}" for each in ("", "/now", f"/tests/{one.id}")]
    read += [f"/deliveries/{one.id}{each}" for each in ("", "/now", "/body")]
    read += [f"/inbox/{relayed.id}{each}" for each in ("", "/body")]
    asked = [f"/services/orders/{each}" for each in ("edit", "rotate", "delete")]
    asked += [f"/inbox/{relayed.id}/edit"]
    acted = [f"/services/orders/{each}" for each in ("state", "test")]
    acted += [
        f"/deliveries/{each.id}/{act}" for each in (one, relayed) for act in ("resend", "cancel")
    ]
    token = dict(acme.get("/").form("/logout").fields) | {"state": "paused", "typed": "orders"}

    for path in [*read, *asked]:
        if path != f"/services/orders/tests/{one.id}":
            assert owner.get(path).status == 200, path
        assert acme.get(path).status == 404, path
    for path in [*asked, *acted]:
        assert acme.post(path, token).status == 404, path
        looks = dict(viewer.get("/").form("/logout").fields)
        assert viewer.post(path, looks | token | looks).status == 403, path
    assert {viewer.get(path).status for path in read if "tests" not in path} == {200}
    assert {viewer.get(path).status for path in asked} == {403}
    assert stored(service.stores, one).state is DeliveryState.DEAD
    found = service.stores.services.find_one({"_id": hook.id})
    assert found
    assert found["state"] == "active"


def test_every_field_of_a_form_says_what_it_means(owner: Person) -> None:
    for kind in ("webhook", "relay", "courier"):
        page = owner.get(f"/services/-/new?type={kind}")
        for each in page.tree.xpath("//@aria-describedby"):
            assert page.tree.get_element_by_id(each).text.strip()
    assert owner.get("/services/-/new?type=odd").status == 400
