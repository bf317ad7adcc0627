"""Pages of deliveries and of the inbox, as people without a script see and use them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pages_ground import Person, Service, Shown
from test_service_pages import HOSTILE, acts
from webhook_ground import (
    KEY,
    foreign,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
    stored,
)

from service.web.deliveries import PAGE_MOST
from service.worker.deliveries.delivery import DeliveryState, document_of
from service.worker.deliveries.service import ServiceState
from service.worker.deliveries.words import words_of


@pytest.fixture(scope="module")
def more_settings() -> dict[str, str]:
    return {"TRACKER_WEBHOOKS__KEYS": KEY}


@pytest.fixture(autouse=True)
def clean(service: Service) -> None:
    for each in ("services", "events", "deliveries", "attempts", "audit"):
        service.stores.named(each).delete_many({})


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


def test_a_body_that_nobody_edits_stays_whatever_ends_its_lines(
    service: Service, owner: Person
) -> None:
    relay, body = store_relay(service.stores), b"\nline 1\r\nline 2\n"
    path = f"/inbox/{store_relayed(service.stores, relay, foreign(relay, body=body)).id}/edit"
    made = owner.submit(owner.get(path), path, body="\r\nline 1\r\nline 2\r\n", method="PUT")

    assert owner.get(f"{made.path}/body").body == body


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
@pytest.mark.parametrize(
    "case",
    [
        ("resend", DeliveryState.DEAD, DeliveryState.OPEN, "Sent again"),
        ("cancel", DeliveryState.OPEN, DeliveryState.CANCELLED, "Cancelled"),
    ],
)
def test_an_act_on_all_that_a_filter_means_is_counted_and_goes_on_in_steps_that_can_be_stopped(
    service: Service, owner: Person, case: tuple[str, DeliveryState, DeliveryState, str]
) -> None:
    act, before, after, done = case
    hook, other = store_service(service.stores, "one"), store_service(service.stores, "two")
    one = store_delivery(service.stores, hook, state=before)
    copies = [replace(one, id=f"A{n}") for n in range(1_002)]
    service.stores.deliveries.insert_many(map(document_of, copies))
    left = store_delivery(service.stores, other, state=before)
    path = "/deliveries/all"

    asked = owner.get(f"{path}?act={act}&service=one&since=2026-11-01&done=500&cursor=1.a")
    begun = owner.submit(asked, path)
    half = service.stores.deliveries.count_documents({"state": str(after)})
    ended = owner.submit(begun, path)

    assert "How many 1,003" in asked.words
    assert f"those that are {before} or held" in asked.words
    assert asked.form(path).get("hx-trigger") is None
    assert f"{done} 1,000 More are meant" in begun.words
    assert half == 1_000
    assert begun.tree.xpath("//a[.='Stop']/@href") == ["/deliveries?service=one&since=2026-11-01"]
    assert f"{done} 1,003 That were all" in ended.words
    assert service.stores.deliveries.count_documents({"state": str(after)}) == 1_003
    assert stored(service.stores, left).state is before


def test_all_of_a_filter_are_cancelled_after_they_were_counted(
    service: Service, owner: Person, viewer: Person
) -> None:
    relay, hook = store_relay(service.stores), store_service(service.stores, "one")
    standing = [
        store_relayed(service.stores, relay, state=each)
        for each in (DeliveryState.OPEN, DeliveryState.HELD)
    ]
    others = [store_relayed(service.stores, relay, state=DeliveryState.DEAD)]
    others += [store_delivery(service.stores, hook, state=DeliveryState.OPEN)]

    listed = owner.get("/inbox?service=shopify")
    (path,) = listed.tree.xpath("//a[.='Cancel all of these…']/@href")
    asked = owner.get(path)
    refused = viewer.get(path).status
    ended = owner.submit(asked, "/inbox/all")

    assert ("How many 2" in asked.words, refused) == (True, 403)
    assert "Cancelled 2 That were all" in ended.words
    states = [stored(service.stores, each).state for each in standing]
    assert states == [DeliveryState.CANCELLED] * 2
    assert [stored(service.stores, each) for each in others] == others
    assert acts(service)[-1][0] == "delivery cancel"
    for state, offered in (("dead", False), ("cancelled", False), ("open", True)):
        shown = owner.get(f"/deliveries?state={state}")
        assert ("Cancel all of these" in shown.words) is offered, state
    assert owner.get("/deliveries/all?act=burn").status == 400


def test_what_is_not_sent_again_is_named_with_its_reason(service: Service, owner: Person) -> None:
    hook = store_service(service.stores, "one", state=ServiceState.DISABLED)
    one = store_delivery(service.stores, hook, state=DeliveryState.HELD)

    begun = owner.submit(owner.get("/deliveries/all?act=resend&service=one"), "/deliveries/all")

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
