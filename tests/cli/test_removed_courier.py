"""A courier that was taken out of the configuration while requests waited for it."""

from __future__ import annotations

import json

import pytest
import redis
from command_line import Run

NUMBERS = ("AB12345601", "AB12345602", "AB12345603")


@pytest.fixture
def _waiting(store: redis.Redis) -> None:
    """Three numbers of which one was requested; the others were pushed by hand."""
    store.rpush("wait_list:pigeon-post", *NUMBERS)
    waits = {"since": 1, "anon": {"id": "job-1", "count": 1, "at": 1}}
    store.hset("wait_requests:pigeon-post", NUMBERS[0], json.dumps(waits))
    store.sadd("wait_slugs", "pigeon-post")


@pytest.mark.usefixtures("_waiting")
def test_info_names_it_and_says_what_to_do(run: Run) -> None:
    shown = run("info")
    (look,) = run("info", "--json").json

    assert shown.lines[0] == (
        "pigeon-post is not configured any more, and 3 numbers wait for it. Configure it again "
        "([couriers.pigeon-post]), and they go on; or end them: "
        "python worker.py cancel --slug pigeon-post"
    )
    assert look["worries"] == [shown.lines[0]]
    assert [each["bound_by"] for each in look["couriers"]] == ["not_configured"]


@pytest.mark.usefixtures("_waiting")
def test_cancel_ends_what_waits_for_it(run: Run, store: redis.Redis) -> None:
    done = run("cancel", "--slug", "pigeon-post", "--yes")

    assert done.code == 0
    assert done.lines[0] == "cancelled 3 requests for 3 numbers of pigeon-post"
    assert store.exists("wait_list:pigeon-post", "wait_requests:pigeon-post") == 0
    assert run("info", "--json").json[0]["worries"] == []


@pytest.mark.parametrize("slug", ["pigeon-post", "Pigeon Post"])
def test_a_courier_that_never_was_is_refused_as_before(run: Run, slug: str) -> None:
    done = run("cancel", "--slug", slug, "--yes")

    assert done.code == 2
    assert slug in done.err
