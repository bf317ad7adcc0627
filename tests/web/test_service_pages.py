"""Pages of services and of alerts, as people without a script see and use them."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
from pages_ground import ACME, ROOT, Person, Service, Shown
from webhook_ground import (
    KEY,
    NOTED_AT,
    store_attempt,
    store_delivery,
    store_service,
)

from service.operator import service_view
from service.worker.deliveries.delivery import DeliveryState, delivery_in
from service.worker.deliveries.mail import About, MailText, write_mail
from service.worker.deliveries.signing import standard
from service.worker.deliveries.standing import beginning, day_name
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


def test_every_field_of_a_form_says_what_it_means(owner: Person) -> None:
    for kind in ("webhook", "relay", "courier"):
        page = owner.get(f"/services/-/new?type={kind}")
        for each in page.tree.xpath("//@aria-describedby"):
            assert page.tree.get_element_by_id(each).text.strip()
    assert owner.get("/services/-/new?type=odd").status == 400
