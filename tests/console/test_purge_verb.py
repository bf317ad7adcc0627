"""`purge` removes what was kept long enough, or counts it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import greenstalk
import pytest
from command_line import Run

KINDS = {
    "operations": 2,
    "dead": 1,
    "unreadable": 0,
    "excerpts": 1,
    "deliveries": 0,
    "inbox": 0,
}


@pytest.fixture
def old(collections: Any) -> Any:
    """Three documents that are older than their settings, and an excerpt."""
    long_ago = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    collections.operations.insert_many([{"finished_at": long_ago}, {"finished_at": long_ago}])
    collections.dead.insert_one({"at": long_ago})
    attempts = [{"at": long_ago, "excerpt": "<html>"}]
    collections.tracking.insert_one({"attempts": attempts, "updated_at": long_ago})
    return collections


def test_a_dry_run_counts_and_removes_nothing(
    run: Run, old: Any, tube: greenstalk.Client[bytes]
) -> None:
    tube.put(b"{")
    tube.bury(tube.reserve(timeout=1))

    (told,) = run("purge", "--dry-run", "--json").json

    assert told == {"dry_run": True, **KINDS, "buried_jobs": 1, "failed": []}
    assert old.operations.count_documents({}) == 2
    done = run("purge", "--dry-run")
    assert done.lines[0].split() == ["operations", "2", "old"]
    assert done.lines[-1].split()[:3] == ["buried", "jobs", "1"]


def test_what_is_old_goes_and_is_counted(
    run: Run, old: Any, tube: greenstalk.Client[bytes]
) -> None:
    tube.put(b"{")
    tube.bury(tube.reserve(timeout=1))

    done = run("purge", "--json")

    assert done.code == 0
    assert done.json == [{"dry_run": False, **KINDS, "buried_jobs": 0, "failed": []}]
    assert (old.operations.count_documents({}), old.dead.count_documents({})) == (0, 0)
    assert old.tracking.distinct("attempts.excerpt") == [""]
    assert tube.stats_tube("requests_flow")["current-jobs-buried"] == 1, "it is young"
    assert run("purge").lines[0].split() == ["operations", "0", "purged"]


def test_the_settings_say_what_is_old(run: Run, old: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_OPERATIONS__KEEP_DAYS", "3650")
    old.operations.update_many({}, {"$set": {"finished_at": dt.datetime(2024, 1, 1)}})  # noqa: DTZ001 - MongoDB takes it for UTC

    (told,) = run("purge", "--json").json

    assert (told["operations"], told["dead"]) == (0, 1)
    for name in ("OPERATIONS__KEEP_DAYS", "RESULTS__EXCERPT_DAYS"):
        monkeypatch.setenv(f"TRACKER_{name}", "0")
        refused = run("purge")
        assert refused.code == 2
        assert name.replace("__", ".").lower() in refused.err


def test_a_beanstalkd_that_is_away_is_named(
    run: Run, old: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", '["127.0.0.1:1"]')

    done = run("purge", "--json")

    assert (done.code, done.json[0]["operations"]) == (1, 2)
    assert "127.0.0.1:1" in done.err
    assert old.operations.count_documents({}) == 0
