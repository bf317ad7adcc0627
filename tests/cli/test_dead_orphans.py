"""Buried jobs that no record names: found, recorded, and then kicked or deleted like all others."""

from __future__ import annotations

import json
from typing import Any

import greenstalk
import pytest
from command_line import Run

from devstack.servers import Server

EMPTY, LONG = b"", b"x" * 5000
READABLE = b'{"type":"requests_flow","payload":{"slug":"usps","number":"94000001"}}'


def bury(beanstalkd: Server, *bodies: bytes, tube: str = "requests_flow") -> list[int]:
    with greenstalk.Client(
        (beanstalkd.host, beanstalkd.port), encoding=None, use=tube, watch=tube
    ) as client:
        jobs = [client.put(body, priority=7) for body in bodies]
        for _ in jobs:
            client.bury(client.reserve(timeout=1), 7)
    return jobs


def buried(tube: greenstalk.Client[bytes]) -> int:
    return tube.stats_tube("requests_flow")["current-jobs-buried"]


def test_a_buried_job_without_a_record_is_listed_and_stays_as_it_is(
    run: Run, collections: Any, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    empty, long, readable = bury(beanstalkd, EMPTY, LONG, READABLE)
    (drain,) = bury(beanstalkd, b"{", tube="wait_list")
    done = run("dead", "orphans", "--json")
    assert done.code == 1
    assert [each["job"] for each in done.json] == [empty, long, readable, drain]
    assert {each["server"] for each in done.json} == {beanstalkd.url}
    assert [each["reason"] for each in done.json] == ["bad_json", "bad_json", "buried", "bad_json"]
    assert (done.json[2]["slug"], done.json[2]["number"]) == ("usps", "94000001")
    assert buried(tube) == 3
    assert tube.stats_job(empty)["pri"] == 7
    assert collections.dead.count_documents({}) == 0
    in_words = run("dead", "orphans")
    assert in_words.lines[-1] == (
        "4 buried jobs have no record; `dead orphans --record` makes one for each"
    )


def test_a_recorded_orphan_is_an_orphan_no_more_and_can_be_kicked_or_deleted(
    run: Run, collections: Any, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    bury(beanstalkd, EMPTY, LONG, READABLE)
    done = run("dead", "orphans", "--record")
    assert done.code == 0
    assert done.lines[-1] == "recorded 3; `dead list` shows them"
    assert run("dead", "orphans").lines == ["every buried job has a record"]
    assert collections.dead.count_documents({}) == 3
    assert run("dead", "delete", "--reason", "bad_json", "--yes").code == 0
    assert buried(tube) == 1
    assert run("dead", "kick", "--slug", "usps", "--yes").code == 0
    assert buried(tube) == 0
    assert json.loads(tube.reserve(timeout=0).body) == json.loads(READABLE)


def test_a_workers_own_job_is_not_kicked_onto_the_tube_of_requests(
    run: Run, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    (job,) = bury(beanstalkd, b"{", tube="wait_list")
    run("dead", "orphans", "--record")
    done = run("dead", "kick", "--all", "--yes")
    assert done.code == 1
    assert "wait_list" in done.err
    with pytest.raises(greenstalk.TimedOutError):
        tube.reserve(timeout=0)
    assert run("dead", "delete", "--all", "--yes").code == 0
    with pytest.raises(greenstalk.NotFoundError):
        tube.peek(job)


def test_a_job_with_a_record_is_no_orphan_but_another_one_of_its_id_is(
    run: Run, collections: Any, beanstalkd: Server
) -> None:
    one, other = bury(beanstalkd, EMPTY, b"[]")
    for job in (one, other):
        collections.dead.insert_one({"server": beanstalkd.url, "job": job, "body": ""})
    assert [each["job"] for each in run("dead", "orphans", "--json").json] == [other]


def test_a_server_that_is_away_is_told_and_the_others_are_looked_at(
    run: Run, beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(beanstalkd, EMPTY)
    servers = json.dumps(["127.0.0.1:1", beanstalkd.url])
    monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", servers)
    done = run("dead", "orphans", "--record")
    assert done.code == 3
    assert "127.0.0.1:1" in done.err
    assert "recorded 1" in done.out
    # What was not looked at may be an orphan.
    assert run("dead", "orphans").lines == []
