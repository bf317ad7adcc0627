"""`dead`: requests listed, shown, put again first and forgotten then, deleted only when meant."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import greenstalk
import pytest
from command_line import Run, bodies, dead

from devstack.servers import Server
from service.operator.resend import renewed_body
from service.worker.tubes.envelope import decode_request, encode_request
from tracking.request import Slug

BODY = '{"type":"requests_flow","payload":{"slug":"usps","number":"94000001","id":"order-1"}}'
AT = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def record(collections: Any, identity: str, **members: Any) -> None:
    dead(collections, identity, **{"body": BODY, "at": AT, **members})


def bury(beanstalkd: Server, body: bytes, tube: str = "requests_flow") -> int:
    with greenstalk.Client(
        (beanstalkd.host, beanstalkd.port), encoding=None, use=tube, watch=tube
    ) as client:
        job = client.put(body)
        client.bury(client.reserve(timeout=1))
        return job


def buried(tube: greenstalk.Client[bytes]) -> int:
    return tube.stats_tube("requests_flow")["current-jobs-buried"]


def test_the_newest_are_listed_first_and_all_are_counted(run: Run, collections: Any) -> None:
    record(collections, "old")
    record(collections, "new", at=AT + dt.timedelta(hours=1), reason="bad_json", slug=None)
    done = run("dead", "list", "--limit", "1")
    assert done.code == 0
    assert "new" in done.lines[1]
    assert done.lines[-1] == "1 shown of 2 in all (bad_json: 1, courier_down: 1)"
    assert run("dead", "list", "--limit", "0").code == 2
    assert [each["_id"] for each in run("dead", "list", "--json").json] == ["new", "old"]
    assert [each["_id"] for each in run("dead", "list", "--json", "--slug", "usps").json] == ["old"]
    by_reason = run("dead", "list", "--json", "--reason", "bad_json")
    assert [each["_id"] for each in by_reason.json] == ["new"]


def test_a_list_without_dead_requests_says_so(run: Run, collections: Any) -> None:
    none = run("dead", "list")
    record(collections, "a")
    others = run("dead", "list", "--slug", "gls")

    assert (none.code, none.lines) == (0, ["no request is dead"])
    assert others.lines == ["no dead request fits this; there are courier_down: 1"]
    assert run("dead", "list", "--slug", "gls", "--json").out == ""


def test_one_is_shown_whole(run: Run, collections: Any) -> None:
    record(collections, "a", body=b"\xff\x1b[31m")
    done = run("dead", "show", "a")
    assert done.code == 0
    assert "503 five times" in done.out
    assert "\x1b" not in done.out
    assert run("dead", "show", "b").code == 1
    assert run("dead", "show", "a", "--json").json[0]["reason"] == "courier_down"


def test_a_kicked_request_is_put_again_as_a_new_operation(
    run: Run, collections: Any, tube: greenstalk.Client[bytes]
) -> None:
    record(collections, "a")
    done = run("dead", "kick", "a", "--json")
    assert done.code == 0
    (body,) = bodies(tube)
    identity = body["payload"].pop("id")
    assert identity.startswith("order-1.kick-")
    told = {"slug": "usps", "number": "94000001", "resend_of": "order-1"}
    assert body["payload"] == told
    assert done.json[0] == {"_id": "a", "kicked": True, "id": identity}
    assert collections.dead.count_documents({}) == 0


def test_kicking_deletes_the_buried_job_of_the_record(
    run: Run, collections: Any, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    job = bury(beanstalkd, b"{nonsense")
    record(collections, "a", body="{nonsense", server=beanstalkd.url, job=job)
    assert run("dead", "kick", "a").code == 0
    assert buried(tube) == 0
    assert tube.reserve(timeout=0).body == b"{nonsense"


@pytest.mark.parametrize("verb", [["kick", "a"], ["delete", "a", "--yes"]])
def test_an_empty_job_leaves_with_its_record(
    run: Run,
    collections: Any,
    beanstalkd: Server,
    tube: greenstalk.Client[bytes],
    verb: list[str],
) -> None:
    record(collections, "a", body="", server=beanstalkd.url, job=bury(beanstalkd, b""))
    assert run("dead", *verb).code == 0
    assert buried(tube) == 0
    assert collections.dead.count_documents({}) == 0
    assert tube.stats_tube("requests_flow")["current-jobs-ready"] == (verb[0] == "kick")


@pytest.mark.parametrize("kept", ["", '{"type":"requests_flow"', BODY])
def test_another_job_that_got_the_same_id_is_left_alone(
    run: Run, collections: Any, beanstalkd: Server, tube: greenstalk.Client[bytes], kept: str
) -> None:
    job = bury(beanstalkd, b'{"type":"requests_flow","payload":{}}')
    record(collections, "a", body=kept, server=beanstalkd.url, job=job)
    assert run("dead", "delete", "a", "--yes").code == 0
    assert buried(tube) == 1


@pytest.mark.parametrize("verb", [["kick", "a"], ["delete", "a", "--yes"]])
def test_a_record_stays_while_its_job_may_lie_buried_on_a_server_that_is_not_configured(
    run: Run, collections: Any, tube: greenstalk.Client[bytes], verb: list[str]
) -> None:
    record(collections, "a", server="10.0.0.9:11300", job=7)
    done = run("dead", *verb)
    assert done.code == 1
    assert "10.0.0.9:11300" in done.err
    assert "[beanstalkd] servers" in done.err
    assert collections.dead.count_documents({}) == 1
    assert bodies(tube) == []


def test_a_job_whose_record_holds_only_its_beginning_is_kicked_whole(
    run: Run, collections: Any, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    whole = b"x" * 5000
    job = bury(beanstalkd, whole)
    record(collections, "a", body="x" * 4096, server=beanstalkd.url, job=job)
    assert run("dead", "kick", "a").code == 0
    assert tube.reserve(timeout=0).body == whole
    assert buried(tube) == 0


def test_a_filter_chooses_and_the_rest_stays(
    run: Run, collections: Any, tube: greenstalk.Client[bytes]
) -> None:
    record(collections, "a")
    record(collections, "b", reason="unreadable_answer")
    record(collections, "c", slug="dpd-uk")
    done = run("dead", "kick", "--slug", "usps", "--reason", "courier_down", "--yes")
    assert done.lines == ["kicked 1, failed 0"]
    assert len(bodies(tube)) == 1
    assert {each["_id"] for each in collections.dead.find()} == {"b", "c"}
    assert run("dead", "kick", "--all", "--yes").lines == ["kicked 2, failed 0"]


def test_a_courier_is_meant_by_its_alias_too_and_one_that_nobody_has_gets_a_suggestion(
    run: Run, collections: Any
) -> None:
    record(collections, "a", slug="dpd-uk")
    record(collections, "b", slug="uspss", reason="unknown_slug")
    assert [each["_id"] for each in run("dead", "list", "--json", "--slug", "dpduk").json] == ["a"]
    unknown = run("dead", "list", "--json", "--slug", "uspss")
    assert [each["_id"] for each in unknown.json] == ["b"]
    assert "no courier is called 'uspss': did you mean usps?" in unknown.err


def test_nothing_is_forgotten_when_beanstalkd_is_away(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(collections, "a")
    monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", '["127.0.0.1:1"]')
    done = run("dead", "kick", "a")
    assert done.code == 1
    assert done.lines == ["kicked 0, failed 1"]
    assert collections.dead.count_documents({}) == 1


def test_a_body_that_was_cut_cannot_be_kicked(
    run: Run, collections: Any, tube: greenstalk.Client[bytes]
) -> None:
    record(collections, "a", body="x" * 4096)
    done = run("dead", "kick", "a")
    assert done.code == 1
    assert "4096" in done.err
    assert bodies(tube) == []


@pytest.mark.parametrize("which", [["--all"], ["--slug", "usps"], ["--reason", "courier_down"]])
@pytest.mark.parametrize(("verb", "done"), [("kick", "kicked"), ("delete", "deleted")])
def test_a_command_that_means_many_asks_first(
    run: Run, collections: Any, verb: str, done: str, which: list[str]
) -> None:
    record(collections, "a")
    refused = run("dead", verb, *which, stdin="y\n")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert collections.dead.count_documents({}) == 1
    assert run("dead", verb, *which, "--yes").lines == [f"{done} 1, failed 0"]
    assert collections.dead.count_documents({}) == 0


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 1), ("", 1)])
def test_a_person_at_a_terminal_answers(run: Run, collections: Any, answer: str, left: int) -> None:
    record(collections, "a")
    done = run("dead", "kick", "--all", stdin=f"{answer}\n", at_terminal=True)
    assert "Put 1 request again?" in done.err
    assert collections.dead.count_documents({}) == left
    assert done.code == left


def test_an_id_that_no_record_has_is_named_before_anybody_is_asked(
    run: Run, collections: Any
) -> None:
    record(collections, "a")
    done = run("dead", "delete", "a", "nope", stdin="n\n", at_terminal=True)
    assert done.code == 1
    assert 0 <= done.err.find("nope: no dead request has this id") < done.err.find("[y/N]")
    assert collections.dead.count_documents({}) == 1


@pytest.mark.parametrize("arguments", [["kick"], ["delete", "--yes"], ["kick", "a", "--all"]])
def test_all_are_meant_only_when_it_is_said(run: Run, arguments: list[str]) -> None:
    done = run("dead", *arguments)
    assert done.code == 2
    assert "--all" in done.err


def test_kicking_what_is_not_there_is_a_negative_finding(run: Run, collections: Any) -> None:
    record(collections, "a")

    done = run("dead", "kick", "nobody", "a")
    none = run("dead", "delete", "--reason", "no_such", "--yes")

    assert (done.code, done.lines) == (1, ["kicked 1, failed 1"])
    assert "nobody: no dead request has this id" in done.err
    assert "no dead request fits this" in none.err


def test_a_workers_own_job_is_not_kicked_onto_the_tube_of_requests(
    run: Run, collections: Any, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    job = bury(beanstalkd, b"{", tube="wait_list")
    record(collections, "a", body="{", server=beanstalkd.url, job=job)
    done = run("dead", "kick", "--all", "--yes")
    assert done.code == 1
    assert "wait_list" in done.err
    with pytest.raises(greenstalk.TimedOutError):
        tube.reserve(timeout=0)
    assert run("dead", "delete", "--all", "--yes").code == 0
    with pytest.raises(greenstalk.NotFoundError):
        tube.peek(job)


def test_what_was_sent_to_a_relay_is_kicked_where_it_is_buried_and_whole(
    run: Run, collections: Any, beanstalkd: Server
) -> None:
    body = b"{}\n" + b"x" * 5_000
    job = bury(beanstalkd, body, tube="webhooks")
    record(collections, "a", body=body[:4_096].decode(), server=beanstalkd.url, job=job)

    assert run("dead", "kick", "a").code == 0

    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, watch="webhooks") as webhooks:
        again = webhooks.reserve(timeout=0)
        assert (again.id, again.body) == (job, body)
    assert collections.dead.count_documents({}) == 0


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"[1,2]", b"{nonsense", b"\xff\xfe", b'{"payload":3}']
)
def test_what_cannot_be_read_is_put_as_it_is(body: bytes) -> None:
    assert renewed_body(body) == (body, None)


@pytest.mark.parametrize("operation", ["order-1", "shop/order-1", "usps:A B/1:Zm9v"])
def test_what_died_under_an_id_is_put_again_as_its_repetition(operation: str) -> None:
    """A record of a call keeps the request that its operations shared, which has no id."""
    job = {"type": "requests_flow", "payload": {"slug": "usps", "number": "94000001"}}

    body, identity = renewed_body(json.dumps(job).encode(), operation)

    request = decode_request(body, lambda slug: (Slug(slug), ""))
    assert (request.id, request.resend_of) == (identity, operation)
    assert encode_request(request) == body


def test_a_long_id_stays_an_id_and_an_old_expiry_goes() -> None:
    job = {"payload": {"id": "x" * 128, "expires_in": 5}, "meta": {"enqueued_at": 0}}
    body, identity = renewed_body(json.dumps(["requests_flow", job]).encode())
    _, made = json.loads(body)
    assert len(made["payload"]["id"]) == 128
    assert made["payload"] == {"id": identity, "resend_of": "x" * 128}
    assert made["meta"]["enqueued_at"] > 1_700_000_000
