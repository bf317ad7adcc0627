"""`delivery`: what was sent to services, as people see it and have it sent again."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from command_line import Run
from webhook_ground import (
    BODY,
    NOTED_AT,
    set_state,
    store_attempt,
    store_delivery,
    store_service,
    stored,
)

from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.service import ServiceState
from tracking.request import Account

DEAD, HELD, OPEN = DeliveryState.DEAD, DeliveryState.HELD, DeliveryState.OPEN


def test_deliveries_are_listed_with_what_became_of_them(run: Run, collections: Any) -> None:
    service = store_service(collections)
    old = store_delivery(collections, service, state=DEAD, made=10, why="timeout")
    new = store_delivery(collections, service, 5, made=1, why="server_error")

    done, for_machines = run("delivery", "list"), run("delivery", "list", "--json")

    assert (done.code, for_machines.code) == (0, 0)
    _, first, second = done.lines
    assert first.startswith(new.id)
    for word in ("orders", "parcel.changed", "usps:9405903699300184125060", "open", "server_error"):
        assert word in first
    assert second.startswith(old.id)
    assert [each["id"] for each in for_machines.json] == [new.id, old.id]
    assert for_machines.json[1]["next_at"] is None


def test_a_filter_and_an_account_narrow_the_list(run: Run, collections: Any) -> None:
    orders, bills = store_service(collections), store_service(collections, "bills")
    of_shop = store_service(collections, account=Account("shop"))
    dead = store_delivery(collections, orders, state=DEAD)
    for each in (orders, bills, of_shop):
        store_delivery(collections, each)

    def listed(*options: str) -> list[str]:
        return [each["id"] for each in run("delivery", "list", "--json", *options).json]

    assert listed("--service", "orders", "--state", "dead") == [dead.id]
    assert len(listed("--service", "bills")) == 1
    assert len(listed("--account", "shop", "--service", "orders")) == 1
    assert len(listed("--limit", "2")) == 2
    assert listed("--since", "1h", "--event", "parcel.changed", "--parcel", "usps:1") == []
    assert run("delivery", "list", "--since", "1h", "--until", "2h").lines == [
        "no delivery fits this"
    ]
    nobody = run("delivery", "list", "--service", "nope")
    assert (nobody.code, "there is no service nope" in nobody.err) == (2, True)


def test_one_is_shown_with_its_body_and_each_attempt(run: Run, collections: Any) -> None:
    made = store_delivery(collections, store_service(collections), made=1)
    store_attempt(collections, made, 1)

    done, for_machines = (run("delivery", "show", made.id, *more) for more in ([], ["--json"]))

    assert done.code == 0
    for text in (json.dumps(BODY), "server_error", "500", "42 ms", "out of order"):
        assert text in done.out
    [told] = for_machines.json
    assert (told["body"], len(told["attempts"])) == (json.dumps(BODY), 1)


def test_one_that_is_not_there_is_a_negative_finding(run: Run, collections: Any) -> None:
    of_shop = store_delivery(collections, store_service(collections, account=Account("shop")))

    for name in ("NEVER", of_shop.id):
        done = run("delivery", "show", name)
        assert (done.code, f"there is no delivery {name}" in done.out) == (1, True)
        assert run("delivery", "cancel", name).code == 1


def test_what_is_resent_by_its_id_is_due_now_without_a_question(run: Run, collections: Any) -> None:
    made = store_delivery(collections, store_service(collections), state=DEAD, ended_at=NOTED_AT)

    done = run("delivery", "resend", made.id, "NEVER")

    assert (done.code, done.lines) == (1, ["resent 1, failed 1"])
    assert "NEVER: there is no delivery NEVER" in done.err
    assert (stored(collections, made).state, stored(collections, made).round) == (OPEN, 2)


def test_how_many_a_filter_resends_is_asked_first(run: Run, collections: Any) -> None:
    service = store_service(collections)
    made = [store_delivery(collections, service, state=state) for state in (DEAD, HELD)]
    question = ("delivery", "resend", "--service", "orders")

    nobody = run(*question)
    refused = run(*question, stdin="n\n", at_terminal=True)
    untouched = [stored(collections, each) for each in made]
    done = run(*question, "--yes", "--json")

    assert (nobody.code, "Resend 2 deliveries?" in nobody.err) == (2, True)
    assert (refused.code, untouched) == (1, made)
    assert (done.code, done.json) == (0, [{"resent": 2, "failed": 0}])
    assert {stored(collections, each).state for each in made} == {OPEN}


def test_all_that_are_held_since_a_time_are_resent(run: Run, collections: Any) -> None:
    service, now = store_service(collections), dt.datetime.now(dt.UTC)
    old, new = (store_delivery(collections, service, state=HELD) for _ in "12")
    recent = {"$set": {"made_at": now - dt.timedelta(minutes=30)}}
    collections.deliveries.update_one({"_id": new.id}, recent)

    done = run("delivery", "resend", "--state", "held", "--since", "1h", "--yes")

    assert (done.code, done.lines) == (0, ["resent 1, failed 0"])
    assert (stored(collections, old).state, stored(collections, new).state) == (HELD, OPEN)


def test_why_some_are_not_resent_is_said(run: Run, collections: Any) -> None:
    service = store_service(collections)
    made = store_delivery(collections, service, state=HELD)
    set_state(collections, service, ServiceState.DISABLED)

    for which in ([made.id], ["--all", "--yes"]):
        done = run("delivery", "resend", *which)

        assert (done.code, done.lines) == (1, ["resent 0, failed 1"])
        assert f"{made.id}: its service orders is disabled: make it active first" in done.err


def test_which_are_resent_or_cancelled_must_be_said(run: Run, collections: Any) -> None:
    made = store_delivery(collections, store_service(collections), state=DEAD)

    for which in ([], [made.id, "--all"], ["--all", "--state", "dead"], [made.id, "--since", "1h"]):
        for act in ("resend", "cancel"):
            done = run("delivery", act, *which, "--yes")
            assert (done.code, "say which" in done.err) == (2, True)
    assert run("delivery", "resend", "--state", "held", "--yes").code == 1
    assert stored(collections, made) == made


def test_all_of_a_filter_are_cancelled_once_somebody_agreed(run: Run, collections: Any) -> None:
    service = store_service(collections)
    made = [store_delivery(collections, service, state=state) for state in (OPEN, HELD, DEAD)]
    question = ("delivery", "cancel", "--service", "orders")

    refused = run(*question, stdin="n\n", at_terminal=True)
    untouched = [stored(collections, each) for each in made]
    done = run(*question, "--yes", "--json")

    assert (refused.code, "Cancel 2 deliveries?" in refused.err, untouched) == (1, True, made)
    assert (done.code, done.json) == (0, [{"cancelled": 2, "failed": 0}])
    cancelled = DeliveryState.CANCELLED
    assert [stored(collections, each).state for each in made] == [cancelled, cancelled, DEAD]


def test_what_is_cancelled_is_sent_no_more(run: Run, collections: Any) -> None:
    service = store_service(collections)
    waits = store_delivery(collections, service)
    arrived = store_delivery(collections, service, state=DeliveryState.DELIVERED)

    done = run("delivery", "cancel", waits.id, arrived.id, "--json")

    assert (done.code, done.json) == (1, [{"cancelled": 1, "failed": 1}])
    assert f"{arrived.id}: it has arrived" in done.err
    assert stored(collections, waits).state is DeliveryState.CANCELLED
    [record, refused] = collections.audit.find()
    assert (record["act"], record["via"]) == ("delivery cancel", "cli")
    assert record["target"] == {"account": "main", "delivery": waits.id}
    assert "it has arrived" in refused["outcome"]["error"]
