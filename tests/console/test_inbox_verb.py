"""`inbox`: relayed requests are listed, shown, sent again, edited and deleted by their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from command_line import Run
from webhook_ground import (
    NOTED_AT,
    foreign,
    store_attempt,
    store_delivery,
    store_relay,
    store_relayed,
    store_service,
    stored,
)

from service.worker.deliveries.delivery import DeliveryState
from service.worker.deliveries.foreign_request import foreign_in
from service.worker.deliveries.words import write_some
from tracking.request import Account

DEAD, OPEN = DeliveryState.DEAD, DeliveryState.OPEN


def test_what_fits_a_filter_is_listed_for_people_and_for_machines(
    run: Run, collections: Any
) -> None:
    relay = store_relay(collections)
    store_relayed(collections, relay)
    store_delivery(collections, store_service(collections))
    request = foreign(relay, body=b"invoice in_77")
    made = store_relayed(collections, relay, request, state=DEAD, status=503, why="server_error")
    write_some(collections)
    which = ("--service", "shopify", "--state", "dead", "--status", "503", "--words", "IN_77")

    done, for_machines = (run("inbox", "list", *which, *more) for more in ([], ["--json"]))

    assert done.code == 0
    assert "all is found" in done.lines[0]
    assert done.lines[1].split() == [
        *("id", "at", "service", "method", "url", "state", "status", "made", "why"),
    ]
    assert [made.id in line for line in done.lines[2:]] == [True]
    [told] = for_machines.json
    assert (told["id"], told["url"], told["status"]) == (made.id, request.url, 503)
    assert "no request fits this" in run("inbox", "list", "--words", "nothing like it").out


def test_a_filter_that_cannot_be_meant_is_refused(run: Run, collections: Any) -> None:
    for wrong in (["--status", "600"], ["--words", "a"], ["--state", "lost"], ["--since", "5"]):
        assert run("inbox", "list", *wrong).code in {1, 2}
    assert "1 to 16 words" in run("inbox", "list", "--words", "a").err
    assert collections.audit.count_documents({}) == 0


def test_one_is_shown_as_it_came_with_its_attempts(run: Run, collections: Any) -> None:
    relay = store_relay(collections)
    made = store_relayed(collections, relay, made=1, status=500)
    store_attempt(collections, made, 1)

    done, for_machines = (run("inbox", "show", made.id, *more) for more in ([], ["--json"]))

    assert done.code == 0
    for text in ("X-Shopify-Topic: orders/paid", "/orders/create?shop=1", "4711", "server_error"):
        assert text in done.out
    [told] = for_machines.json
    assert (told["method"], len(told["attempts"])) == ("POST", 1)
    assert told["headers"][1] == ["X-Shopify-Topic", "orders/paid"]


def test_one_that_is_not_there_is_a_negative_finding(run: Run, collections: Any) -> None:
    theirs = store_relayed(collections, store_relay(collections, account=Account("shop")))

    for action in (["show"], ["resend"], ["edit", "--body", "a"], ["delete", "--yes"]):
        verb, *more = action
        assert run("inbox", verb, theirs.id, *more).code in {1, 2}
    assert stored(collections, theirs) == theirs
    assert run("inbox", "show", theirs.id, "--account", "shop").code == 0


def test_what_is_resent_is_due_now(run: Run, collections: Any) -> None:
    made = store_relayed(collections, store_relay(collections), state=DEAD, ended_at=NOTED_AT)

    done = run("inbox", "resend", made.id, "NEVER")

    assert (done.code, done.lines) == (1, ["resent 1, failed 1"])
    assert (stored(collections, made).state, stored(collections, made).round) == (OPEN, 2)


def test_an_edited_copy_is_made_of_what_is_named(
    run: Run, collections: Any, tmp_path: Path
) -> None:
    old = store_relayed(collections, store_relay(collections))
    (tmp_path / "body").write_bytes(b"\xff\x00")
    named = ("--method", "PUT", "--header", "X-A: 1", "--header", "X-A: 2")

    done = run(
        "inbox",
        "edit",
        old.id,
        *named,
        "--body-file",
        str(tmp_path / "body"),
        "--key",
        "k",
        "--json",
    )
    again = run(
        "inbox", "edit", old.id, *named, "--body-file", "-", "--key", "k", "--json", stdin="other"
    )

    [told] = done.json
    assert (done.code, told["edited_from"], told["state"]) == (0, old.id, "open")
    [event] = collections.events.find({"request.edited_from": old.id})
    request = foreign_in(event)
    assert (request.method, request.body) == ("PUT", b"\xff\x00")
    assert request.headers == (("X-A", "1"), ("X-A", "2"))
    assert "another request" in again.err
    assert collections.deliveries.count_documents({}) == 2


def test_an_edit_that_changes_nothing_or_what_cannot_be_sent_is_refused(
    run: Run, collections: Any
) -> None:
    old = store_relayed(collections, store_relay(collections))

    assert run("inbox", "edit", old.id).code == 2
    assert run("inbox", "edit", "nobody", "--target", "/").code == 1
    assert run("inbox", "edit", old.id, "--body-file", "/no/such/file").code == 2
    assert "target: " in run("inbox", "edit", old.id, "--target", "/a/../b").err
    assert collections.deliveries.count_documents({}) == 1


def test_what_is_deleted_is_asked_first_and_goes_with_all_of_it(run: Run, collections: Any) -> None:
    relay = store_relay(collections)
    made, stays = store_relayed(collections, relay, made=1), store_relayed(collections, relay)
    store_attempt(collections, made, 1)

    assert run("inbox", "delete", made.id, stdin="n\n", at_terminal=True).code == 1
    done = run("inbox", "delete", made.id, "--yes", "--json")

    assert (done.code, done.json) == (0, [{"deleted": 1, "failed": 0}])
    assert [each["_id"] for each in collections.deliveries.find()] == [stays.id]
    assert collections.attempts.count_documents({}) == 0
    assert collections.events.count_documents({}) == 1


def test_days_of_an_account_are_set_and_taken_back(run: Run, collections: Any) -> None:
    assert run("account", "add", "shop").code == 0
    kept = run("account", "set", "shop", "inbox_keep_days=90", "--json")
    [_, told] = run("account", "list", "--json").json
    for wrong in ("inbox_keep_days=91", "inbox_keep_days=0", "inbox_keep_days=x"):
        assert run("account", "set", "shop", wrong).code in {1, 2}

    assert kept.json == [{"account": "shop", "inbox_keep_days": 90}]
    assert told["inbox_keep_days"] == 90
    assert run("account", "set", "shop", "inbox_keep_days=none").code == 0
    assert "inbox_keep_days" not in collections.accounts.find_one({"_id": "shop"})


def test_help_has_examples(run: Run) -> None:
    for action in ("list", "edit"):
        assert f"tracker inbox {action} " in run("inbox", action, "--help").out
