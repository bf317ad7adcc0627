"""The overview, and what operators see and do on their pages, as people without a script do."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from pages_ground import Person, Service, Shown

from limits import keys
from limits.workers import FORM
from service.http.dead import RECORDS_MOST
from service.web.dead import PAGE_MOST
from service.worker.results.database import indexes_for, make_indexes, names_of
from service.worker.results.dead import MAX_BODY_BYTES

USPS = "/lines/usps"
READ = (
    *("/lines", "/lines/now", USPS, f"{USPS}/now", "/workers", "/workers/now", "/statistics"),
    *("/dead", "/dead/all?act=kick", "/dead/records/a", "/overview/attention"),
    *("/accounts", "/accounts/acme"),
    *("/proof", "/proof/now", "/proof.json", "/proof.key"),
)
WRITTEN = (
    *(f"{USPS}/pause", f"{USPS}/resume", f"{USPS}/limits", f"{USPS}/limits/reset"),
    *("/dead/all", "/dead/records/a", "/accounts", "/accounts/acme/quotas"),
)


@pytest.fixture(scope="module", autouse=True)
def line(service: Service) -> Iterator[redis.Redis]:
    """Before anybody looked: a paused line at which seven wait, a worker with a call, parcels."""
    url = service.settings["TRACKER_REDIS__URL"]
    with redis.Redis.from_url(url, decode_responses=True) as client:
        client.rpush("wait_list:usps", *(f"9400000{index}" for index in range(7)))
        client.sadd("wait_slugs", "usps")
        client.set("calls_held:usps", json.dumps({"why": "they <b>move</b>"}), ex=60)
        who = {"token": "tok-1", "host": "<b>one", "pid": 11, "version": "9.9.9", "since": 0.0}
        told = json.dumps(who | {"trouble": "archive ended", "form": FORM})
        client.zadd("tracking:workers", {told: time.time() * 1000 + 15_000})
        call = {"n": "94001", "at": time.time() * 1e6, "newest": ["a"], "ids": 1, "tries": 0}
        client.hset("wait_inflight:usps", "tok-1-7", json.dumps(call))
        client.zadd("calls_leases:usps", {"tok-1-7": (time.time() + 60) * 1e6})
        at = int(time.time())
        client.hset(keys.ten_minutes(at - at % 600, "usps"), mapping={"SUCCESS 100 250": 60})
        _store_parcels(service)
        yield client


def _store_parcels(service: Service) -> None:
    make_indexes(service.stores.tracking, indexes_for(names_of(service.config))["tracking"])
    now = dt.datetime.now(dt.UTC)
    parcel = {"slug": "ups", "tag": "InTransit", "active": True, "updated_at": now}
    overdue = {"expected_delivery": f"{now - dt.timedelta(days=1):%Y-%m-%d}T10:00:00"}
    there = {"tag": "Delivered", "active": False, "delivered_at_utc": now}
    service.stores.tracking.insert_many(
        [
            parcel | overdue | {"_id": "ups:1Z1@acme", "account": "acme"},
            parcel | there | {"_id": "ups:1Z2@acme", "account": "acme"},
            parcel | {"_id": "ups:1Z3"},
        ]
    )


def record_dead(service: Service, *names: str, **members: Any) -> None:
    now = dt.datetime.now(dt.UTC)
    record = {"slug": "usps", "number": "94001", "operations": [], "reason": "bad_json"}
    record |= {"detail": "nested too deep", "body": '{"slug"', "server": None, "job": None}
    at = [now - dt.timedelta(seconds=each) for each in range(len(names))]
    service.stores.dead.insert_many(
        [
            {"_id": name, **record, "at": when, **members}
            for name, when in zip(names, at, strict=True)
        ]
    )


def acts(service: Service) -> list[tuple[str, str, dict[str, Any]]]:
    """What was recorded since the last look."""
    found = list(service.stores.audit.find({"via": "web"}).sort("at"))
    service.stores.audit.delete_many({})
    return [(each["user"], each["act"], each["target"]) for each in found]


def values(form: Any) -> dict[str, str]:
    return {name: text for name, text in form.fields.items() if name != "csrf"}


def test_for_all_others_there_is_nothing_at_these_paths(
    viewer: Person, acme: Person, member: Person
) -> None:
    for person in (viewer, member, acme):
        token = dict(person.get("/").form("/logout").fields)
        missing = person.get("/nothing-is-here")

        assert {person.get(path).status for path in READ} == {404}
        assert {person.post(path, token).status for path in WRITTEN} == {404}
        assert missing.status == 404


def test_everybody_sees_the_parcels_of_the_own_account_and_nothing_of_others(
    owner: Person, acme: Person
) -> None:
    theirs, ours = acme.get("/"), owner.get("/")

    assert "Parcels 2 Delivered today 1 Exceptions 0 Overdue 1" in theirs.words
    assert "Parcels 1 Delivered today 0 Exceptions 0 Overdue 0" in ours.words
    assert "needs attention" not in theirs.words
    assert "Calls" not in theirs.words


def test_the_overview_says_what_needs_attention_first(owner: Person) -> None:
    shown = owner.get("/overview/attention")

    assert [" ".join(each.text_content().split()) for each in shown.tree.iter("p")] == [
        "the worker <b>one 11 is in trouble: archive ended",
        "usps is paused by hand (they <b>move</b>)",
    ]
    assert owner.get("/overview/attention", If_None_Match=shown.headers["ETag"]).status == 304


def test_the_overview_leads_to_the_dead_letters_of_the_last_day(
    service: Service, owner: Person
) -> None:
    record_dead(service, "new")
    record_dead(service, "old", at=dt.datetime.now(dt.UTC) - dt.timedelta(days=2))

    shown = owner.get("/")
    (link,) = shown.tree.xpath("//a[starts-with(@href, '/dead?since=')]/@href")

    assert "Dead letters 1" in shown.words
    assert names(owner.get(link)) == ["/dead/records/new"]
    service.stores.dead.delete_many({})


def test_lines_and_workers_are_listed_as_they_are_now(owner: Person) -> None:
    lines, workers, one = (owner.get(path) for path in ("/lines", "/workers", USPS))

    (row,) = [each for each in lines.tree.iter("tr") if each.findtext(".//a") == "usps"]
    assert row.text_content().split()[:4] == ["usps", "paused", "by", "hand"]
    assert "1/20" in row.text_content()
    (spark,) = row.xpath(".//*[local-name()='svg']")
    assert "of 2" in spark.get("aria-label")
    assert "TRACKER_COURIERS__FEDEX__CLIENT_ID" in lines.words
    for shown in (workers, one):
        assert "<b>one 11" in shown.words
        assert "94001" in shown.words
    assert "60" in one.tree.xpath("//figure")[0].text_content()
    assert owner.get("/lines/nobody-1").status == 404


def test_a_line_is_paused_with_a_reason_and_resumed(
    line: redis.Redis, owner: Person, service: Service
) -> None:
    acts(service)
    page = owner.get(USPS)
    paused = owner.submit(page, f"{USPS}/pause", reason="<b>sale</b>", length="15m")
    left = line.ttl("calls_held:usps")
    resumed = owner.submit(paused, f"{USPS}/resume")

    assert "usps is paused" in paused.words
    assert "Bound by paused by hand (<b>sale</b>) for" in paused.words
    assert 800 < left <= 900
    assert "usps may be called again" in resumed.words
    assert "<b>sale</b>" not in resumed.words
    assert not line.exists("calls_held:usps")
    user = "owner@main.example"
    assert acts(service) == [
        (user, "pause", {"slug": "usps", "seconds": 900.0, "reason": "<b>sale</b>"}),
        (user, "resume", {"slug": "usps"}),
    ]


def test_a_pause_of_no_length_of_time_is_asked_for_again_with_what_was_typed(
    owner: Person, service: Service
) -> None:
    wrong = owner.submit(owner.get(USPS), f"{USPS}/pause", reason="sale", length="soon")

    assert wrong.status == 422
    assert "write 90s, 15m, 2h or 3d" in wrong.words
    assert values(wrong.form(f"{USPS}/pause")) == {"reason": "sale", "length": "soon"}
    assert acts(service) == []


def test_limits_are_changed_and_taken_back_each_for_itself(owner: Person, service: Service) -> None:
    page = owner.get(USPS)
    before = values(page.form(f"{USPS}/limits"))
    changed = owner.submit(page, f"{USPS}/limits", per_second="7", per_day="1000")
    without = owner.submit(changed, f"{USPS}/limits", per_day="")
    back = owner.submit(without, f"{USPS}/limits/reset", name="per_second")

    assert values(changed.form(f"{USPS}/limits")) == before | {"per_second": "7", "per_day": "1000"}
    assert values(without.form(f"{USPS}/limits")) == before | {"per_second": "7"}
    assert values(back.form(f"{USPS}/limits")) == before
    assert [target["limits"] for _, _, target in acts(service)] == [
        {"per_second": 7, "per_day": 1000},
        {"per_day": None},
        ["per_second"],
    ]


def test_a_limit_that_cannot_be_changes_none(owner: Person, service: Service) -> None:
    page = owner.get(USPS)
    for name, value, why in (
        ("per_second", "0", "must be 1 or more"),
        ("concurrent", "", "cannot be none"),
        ("per_hour", "many", "is no limit"),
        ("together", "99", "answers for no more in one call"),
    ):
        wrong = owner.submit(page, f"{USPS}/limits", **{name: value})

        assert (wrong.status, why in wrong.words) == (422, True)
        assert values(wrong.form(f"{USPS}/limits"))[name] == value
    assert acts(service) == []


def test_a_name_of_no_limit_takes_none_back(owner: Person, service: Service) -> None:
    token = dict(owner.get("/").form("/logout").fields)

    assert owner.post(f"{USPS}/limits/reset", token | {"name": "all"}).status == 422
    assert acts(service) == []


def test_dead_letters_are_filtered_paged_and_read(service: Service, owner: Person) -> None:
    record_dead(service, *(f"a/{index}" for index in range(PAGE_MOST + 2)), slug="dpd")
    text = "<script>alert(1)</script>"
    record_dead(service, "b", slug="ups", reason=text, detail=text, body=text, number=text)

    first = owner.get("/dead?slug=dpd")
    (following,) = first.tree.xpath("//a[@rel='next']/@href")
    second = owner.get(following)
    other = owner.get("/dead?slug=ups")

    assert [len(names(each)) for each in (first, second, other)] == [PAGE_MOST, 2, 1]
    assert not set(names(first)) & set(names(second))
    one = owner.get(names(other)[0])
    for shown in (other, one):
        assert text not in shown.text
        assert text in shown.words
    assert owner.get(names(second)[0]).status == 200
    assert owner.get("/dead?since=soon&account=A!").status == 400
    assert owner.get("/dead?cursor=soon").status == 400
    service.stores.dead.delete_many({})


def names(page: Shown) -> list[str]:
    return page.tree.xpath("//a[contains(@href, '/dead/records/')]/@href")


def test_one_dead_letter_is_put_again_and_another_deleted(service: Service, owner: Person) -> None:
    acts(service)
    record_dead(service, "a/1", slug="ups", number="1Z12345E0205271688", body="")
    record_dead(service, "a/2")

    put = owner.submit(owner.get("/dead/records/a%2F1"), "/dead/records/a%2F1", act="kick")
    gone = owner.submit(owner.get("/dead/records/a%2F2"), "/dead/records/a%2F2", act="delete")

    assert "ups 1Z12345E0205271688 was put again" in put.words
    assert "was deleted" in gone.words
    assert [(act, target["ids"]) for _, act, target in acts(service)] == [
        ("kick", ["a/1"]),
        ("delete", ["a/2"]),
    ]
    assert service.stores.dead.count_documents({}) == 0
    assert owner.get("/dead/records/a%2F2").status == 404


@pytest.mark.prove
def test_all_that_a_filter_means_are_counted_and_then_go_in_steps(
    service: Service, owner: Person
) -> None:
    """Only behind a step that somebody confirmed the next one begins by itself."""
    record_dead(service, *(f"n{index}" for index in range(RECORDS_MOST + 3)), slug="dpd")
    record_dead(service, "other")

    asked = owner.get("/dead/all?act=delete&slug=dpd&cursor=1.a&done=500")
    begun = owner.submit(asked, "/dead/all")
    ended = owner.submit(begun, "/dead/all")

    assert f"How many {RECORDS_MOST + 3}" in asked.words
    assert asked.form("/dead/all").get("hx-trigger") is None
    assert f"Deleted {RECORDS_MOST} More are meant" in begun.words
    assert begun.form("/dead/all").get("hx-trigger") == "load delay:500ms, submit"
    assert f"Deleted {RECORDS_MOST + 3} That were all" in ended.words
    assert [each["_id"] for each in service.stores.dead.find()] == ["other"]
    assert owner.get("/dead/all?act=burn").status == 400
    service.stores.dead.delete_many({})


def test_what_was_not_put_again_is_named_with_its_reason(service: Service, owner: Person) -> None:
    record_dead(service, "a", slug=None, body="{" * MAX_BODY_BYTES)

    begun = owner.submit(owner.get("/dead/all?act=kick"), "/dead/all")

    assert "Not put again 1" in begun.words
    assert names(begun) == ["/dead/records/a"]
    service.stores.dead.delete_many({})


@pytest.mark.parametrize("query", ["", "?last=hour&slug=ups", "?last=month", "?last=x&slug=nobody"])
def test_statistics_are_drawn_with_a_table_for_each_plot(owner: Person, query: str) -> None:
    page = owner.get(f"/statistics{query}")

    plots = page.tree.xpath("//figure[.//*[local-name()='svg'][@role='img']]")
    assert len(plots) == 3
    assert [len(each.findall(".//details//table")) for each in plots] == [1, 1, 1]
    assert len(page.body) < 150_000


def test_an_account_is_added_once(owner: Person, service: Service) -> None:
    acts(service)
    added = owner.submit(owner.get("/accounts"), "/accounts", name="shop")
    again = owner.submit(added, "/accounts", name="shop")
    wrong = owner.submit(added, "/accounts", name="A shop")

    assert "The account shop is added" in added.words
    assert (again.status, "there is an account shop already" in again.words) == (422, True)
    assert (wrong.status, "names no account" in wrong.words) == (422, True)
    assert acts(service)[0] == ("owner@main.example", "account add", {"account": "shop"})


def test_quotas_are_set_each_for_itself_and_shown_with_what_is_used(
    owner: Person, service: Service
) -> None:
    acts(service)
    path = "/accounts/acme"
    page = owner.get(path)
    done = owner.submit(page, f"{path}/quotas", calls_a_day="1,000", parcels="1")
    wrong = owner.submit(done, f"{path}/quotas", parcels="some", calls_a_day="")
    back = owner.submit(done, f"{path}/quotas", calls_a_day="")

    assert "The quotas of acme are set." in done.words
    assert "0 of 1,000" in done.words
    assert (wrong.status, "write a number" in wrong.words) == (422, True)
    assert values(wrong.form(f"{path}/quotas"))["parcels"] == "some"
    assert "Calls a day any number" in back.words
    assert "Parcels followed: 1 of 1" in owner.get("/accounts").words
    assert [target for _, _, target in acts(service)] == [
        {"account": "acme", "calls_a_day": 1000, "parcels": 1},
        {"account": "acme", "calls_a_day": None},
    ]
    assert owner.get("/accounts/nobody").status == 404
