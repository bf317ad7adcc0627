"""`service`: where an account has webhooks sent, as people make and change it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from command_line import Run
from webhook_ground import KEY, set_state, store_attempt, store_delivery, store_service, stored

from service import PROGRAM
from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.secret_box import SecretBox
from service.worker.deliveries.service import ServiceState

URL = "https://shop.example/hooks"


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """With a key by which secrets are encrypted."""
    monkeypatch.setenv("TRACKER_WEBHOOKS__KEYS", KEY)
    return run


def test_the_secret_of_a_new_service_stands_alone_and_is_shown_once(
    run: Run, collections: Any
) -> None:
    done = run("service", "add", "orders", URL)

    [secret] = done.lines
    assert (done.code, secret.startswith("whsec_"), "shown this once" in done.err) == (
        0,
        True,
        True,
    )
    [kept] = collections.services.find()
    assert secret not in str(kept) + run("service", "show", "orders").out
    [sealed] = kept["secrets"]
    assert SecretBox.of(KEY).opened(sealed["text"], kept["_id"]) == secret


def test_options_set_what_a_service_hears_and_how_it_is_sent(run: Run, collections: Any) -> None:
    filters = (
        "--events",
        "parcel.changed,parcel.delivered",
        "--slugs",
        "usps",
        "--tags",
        "Delivered",
    )
    headers = ("--header", "X-From: tracking", "--header", "Authorization: Bearer a:b")
    numbers = ("--concurrent", "3", "--per-second", "4", "--attempts", "5", "--timeout", "6")
    rest = ("--format", "aftership", "--ordered")

    [told] = run(
        "service", "add", "orders", URL, *filters, *headers, *numbers, *rest, "--json"
    ).json

    assert told["secret"]
    wanted = {
        "account": "main",
        "name": "orders",
        "destination": URL,
        "events": ["parcel.changed", "parcel.delivered"],
        "slugs": ["usps"],
        "tags": ["Delivered"],
        "headers": ["Authorization", "X-From"],
        "concurrent": 3,
        "per_second": 4,
        "attempts": 5,
        "timeout_seconds": 6.0,
        "format": "aftership",
        "ordered": True,
        "state": "active",
    }
    assert {name: told[name] for name in wanted} == wanted
    [kept] = collections.services.find()
    assert kept["headers"] == {"X-From": "tracking", "Authorization": "Bearer a:b"}


def test_what_is_set_changes_and_what_is_not_named_stays(run: Run) -> None:
    run("service", "add", "orders", URL, "--events", "parcel.changed", "--header", "X-From: me")

    changes = (
        "--events",
        "all",
        "--no-headers",
        "--per-second",
        "7",
        "--destination",
        f"{URL}/new",
    )
    done = run("service", "set", "orders", *changes)
    [told] = run("service", "show", "orders", "--json").json

    assert (done.code, done.lines) == (0, ["orders is changed"])
    assert (told["events"], told["headers"], told["per_second"]) == ([], [], 7)
    assert (told["destination"], told["concurrent"]) == (f"{URL}/new", 20)
    nothing = run("service", "set", "orders")
    assert (nothing.code, "say what is to be changed" in nothing.err) == (2, True)


def test_services_are_listed_and_an_empty_list_says_how_one_is_made(
    run: Run, collections: Any
) -> None:
    nothing = run("service", "list")
    for name in ("orders", "bills"):
        store_service(collections, name)

    done = run("service", "list")

    assert nothing.lines == [f"main has no services; `{PROGRAM} service add NAME URL` makes one"]
    assert [line.split()[0] for line in done.lines] == ["service", "bills", "orders"]
    assert "https://bills.example/hooks" in done.out
    assert [each["name"] for each in run("service", "list", "--json").json] == ["bills", "orders"]
    assert run("service", "list", "--account", "shop", "--json").out == ""


def test_all_of_one_but_its_secret_is_shown(run: Run, collections: Any) -> None:
    service = store_service(collections)
    store_delivery(collections, service)

    done, for_machines = (run("service", "show", "orders", *more) for more in ([], ["--json"]))

    [told] = for_machines.json
    assert (told["open"], told["held"], told["days"]) == (1, 0, [])
    for text in (service.line, service.destination, "standard", "active", "ordered"):
        assert text in done.out


def test_the_last_attempts_that_failed_are_shown(run: Run, collections: Any) -> None:
    made = store_delivery(collections, store_service(collections), made=7)
    for number in range(1, 8):
        store_attempt(collections, made, number)

    done, for_machines = (run("service", "show", "orders", *more) for more in ([], ["--json"]))

    assert [each["number"] for each in for_machines.json[0]["errors"]] == [7, 6, 5, 4, 3]
    assert "the last 5 attempts that failed:" in done.lines
    assert done.out.count("server_error") == 5


def test_how_a_service_did_is_shown_day_by_day(run: Run, collections: Any) -> None:
    service = store_service(collections)
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = {"day": today, "service": service.id, "account": "main"}
    parts = {"0800": {"attempts": 3, "failed": 2, "retried": 1, "delivered": 2, "requests": 2}}
    name = f"{today:%Y-%m-%d}:~{service.id}"
    collections.statistics.insert_one({"_id": name, **day, "parts": parts})

    done = run("service", "show", "orders")

    assert [line.split() for line in done.lines[-2:]] == [
        [
            *("day", "requests", "delivered", "dead", "cancelled", "completed"),
            *("attempts", "failed", "retried"),
        ],
        [f"{today:%Y-%m-%d}", "2", "2", "0", "0", "0", "3", "2", "1"],
    ]
    assert "c2VhbGVk" not in done.out
    nobody = run("service", "show", "nope")
    assert (nobody.code, "there is no service nope" in nobody.err) == (2, True)


def test_a_service_is_paused_and_goes_on_also_where_it_was_disabled(
    run: Run, collections: Any
) -> None:
    service = store_service(collections)

    def state() -> str:
        [kept] = collections.services.find()
        return str(kept["state"])

    assert "waits until it is resumed" in run("service", "pause", "orders").out
    assert state() == "paused"
    set_state(collections, service, ServiceState.DISABLED)
    assert "goes on" in run("service", "resume", "orders").out
    assert state() == "active"


def test_a_service_is_removed_after_a_question_and_what_waits_is_cancelled(
    run: Run, collections: Any
) -> None:
    made = store_delivery(collections, store_service(collections))

    nobody = run("service", "remove", "orders")
    refused = run("service", "remove", "orders", stdin="n\n", at_terminal=True)
    untouched = stored(collections, made)
    done = run("service", "remove", "orders", "--yes", "--json")

    assert (nobody.code, "--yes" in nobody.err) == (2, True)
    assert (refused.code, untouched) == (1, made)
    assert done.json == [{"account": "main", "service": "orders", "removed": True}]
    assert stored(collections, made).state is DeliveryState.CANCELLED
    again = run("service", "remove", "orders", stdin="y\n", at_terminal=True)
    assert (again.code, "[y/N]" in again.err) == (2, False)


def test_a_new_secret_stands_alone_and_the_old_one_signs_on_for_a_while(
    run: Run, collections: Any
) -> None:
    [old] = run("service", "add", "orders", URL).lines

    done = run("service", "rotate", "orders", "--keep", "2h")

    [new] = done.lines
    assert (done.code, new != old, "for 2 h" in done.err) == (0, True, True)
    [kept] = collections.services.find()
    newest, before = kept["secrets"]
    box = SecretBox.of(KEY)
    assert [box.opened(each["text"], kept["_id"]) for each in (newest, before)] == [new, old]
    assert (newest["ends_at"], bool(before["ends_at"])) == (None, True)


def test_a_test_says_where_it_can_be_followed(run: Run, collections: Any) -> None:
    store_service(collections)

    done = run("service", "test", "orders")

    [delivery] = collections.deliveries.find()
    assert f"delivery show {delivery['_id']}" in done.out
    assert run("service", "test", "nope").code == 2


def test_a_key_is_printed_without_any_server_and_fits(offline: Run) -> None:
    done, named = offline("service", "key"), offline("service", "key", "spring")

    [key], [other] = done.lines, named.lines
    assert SecretBox.of(f"{key} {other}")
    assert (other.partition(":")[0], "TRACKER_WEBHOOKS__KEYS" in done.err) == ("spring", True)


def test_what_cannot_be_is_refused_with_its_name_and_the_fix(run: Run, collections: Any) -> None:
    for arguments, why in (
        (("add", "Orders", URL), "1 to 20 of a-z and 0-9"),
        (("add", "orders", "http://shop.example"), "https://"),
        (("add", "orders", URL, "--events", "parcel.moved"), "parcel.moved"),
        (("add", "orders", URL, "--events", ","), "it is empty"),
        (("add", "orders", URL, "--header", "X-From"), "write 'NAME: VALUE'"),
        (("add", "orders", URL, "--account", "nobody"), "account add nobody"),
        (("add", "orders", URL, "--timeout", "90"), "timeout_seconds"),
    ):
        done = run("service", *arguments)
        assert (done.code, why in done.err) == (2, True), done.err
    assert collections.services.find_one({}) is None


def test_without_a_key_for_secrets_none_is_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACKER_WEBHOOKS__KEYS")

    done = run("service", "add", "orders", URL)

    assert (done.code, "service key" in done.err) == (2, True)


def test_with_an_account_its_services_go(run: Run, collections: Any) -> None:
    run("account", "add", "shop")
    run("service", "add", "orders", URL, "--account", "shop")
    run("service", "add", "orders", URL)

    [done] = run("account", "remove", "shop", "--yes", "--json").json

    assert done == {"account": "shop", "keys_ended": 0, "services_ended": 1}
    states = {each["account"]: each["state"] for each in collections.services.find()}
    assert states == {"shop": "deleted", "main": "active"}
    refused = run("service", "add", "orders", URL, "--account", "shop")
    assert (refused.code, "there is no account shop" in refused.err) == (2, True)


def test_secrets_are_encrypted_by_a_new_key_so_that_the_old_one_can_be_taken_out(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    [secret] = run("service", "add", "orders", URL).lines
    [new] = run("service", "key", "newer").lines
    monkeypatch.setenv("TRACKER_WEBHOOKS__KEYS", new)
    without = run("service", "seal")
    monkeypatch.setenv("TRACKER_WEBHOOKS__KEYS", f"{new} {KEY}")

    done = run("service", "seal")

    [kept] = collections.services.find()
    assert (without.code, "opened by none of the keys: 1" in without.err) == (1, True)
    assert (done.code, "encrypted by the first key: 1" in done.err) == (0, True)
    assert SecretBox.of(new).opened(kept["secrets"][0]["text"], kept["_id"]) == secret


def test_a_relay_is_made_by_its_options_and_says_where_it_takes_requests(
    run: Run, collections: Any
) -> None:
    options = ("--type", "relay", "--handshake", "slack", "--verify-token", "token-4711")
    answer = ("--answer", "ok", "--answer-status", "200", "--dedupe-header", "X-Event")
    rates = ("--door-per-second", "5", "--door-bytes-per-second", "4096")
    done = run("service", "add", "orders", URL, *options, *answer, *rates)

    [kept] = collections.services.find()
    address = f"http://127.0.0.1:8081/in/main-orders-{kept['ingest']['random']}/"
    assert done.code == 0
    assert f"it takes requests at {address}" in done.err
    ingest = kept["ingest"]
    assert (ingest["handshake"], ingest["body"], ingest["status"]) == ("slack", "ok", 200)
    assert (ingest["per_second"], ingest["bytes_per_second"]) == (5, 4_096)
    assert address in run("service", "list").out
    shown = run("service", "show", "orders").out
    assert address in shown
    assert "token-4711" not in shown
    [told] = run("service", "list", "--json").json
    assert (told["type"], told["addresses"]) == ("relay", [address])
    assert told["ingest"]["dedupe_header"] == "X-Event"


def test_a_courier_service_is_made_without_a_destination_and_changed(
    run: Run, collections: Any
) -> None:
    secret = ("--push-secret", "s1")
    done = run("service", "add", "dhl", "--type", "courier", "--courier", "dhl", *secret)

    assert (done.code, len(done.lines)) == (0, 1)
    assert run("service", "set", "dhl", "--handshake", "none", "--push-secret", "").code == 0
    [kept] = collections.services.find()
    assert (kept["type"], kept["destination"]) == ("courier", "")
    assert (kept["ingest"]["courier"], kept["ingest"]["push_secret"]) == ("dhl", "")
    assert run("service", "remove", "dhl", "--yes").code == 0


def test_what_a_type_has_not_is_refused_on_the_command_line(run: Run, collections: Any) -> None:
    refused = run("service", "add", "orders", URL, "--type", "relay", "--events", "parcel.changed")
    lacks = run("service", "add", "orders")

    assert "a service of type relay has none" in refused.err
    assert "destination" in lacks.err
    assert collections.services.count_documents({}) == 0
