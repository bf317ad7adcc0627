"""`recover`: what a door wrote on standard output when it spooled is put."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run, bodies

from devstack.servers import Server
from service.operator.spool import write_lines, write_relayed_lines
from service.worker.deliveries.foreign_request import (
    BODY_MOST,
    ForeignRequest,
    encode_foreign,
    new_request_id,
)
from service.worker.deliveries.ingest_label import new_label, parse_label
from tracking.request import MAIN

JOBS = [
    {
        "type": "requests_flow",
        "payload": {"slug": "usps", "number": f"940{number}", "id": f"r{number}"},
        "meta": {"enqueued_at": 1.5},
    }
    for number in range(3)
]
LABEL = str(new_label(MAIN, "erp", b"k" * 32))
LOGGED = b'{"ts":"2026-11-22T07:46:50.818Z","level":"info","event":"door is open"}\n'


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """As a log driver keeps it: other lines between, a prefix before each, the last one cut."""
    file = tmp_path / "ingest.log"
    written = tmp_path / "out"
    with written.open("wb") as out:
        assert write_lines([json.dumps(job).encode() for job in JOBS], out.fileno())
    lines = [LOGGED, *written.read_bytes().splitlines(keepends=True)]
    with_prefix = [b"ingest-1  | " + line for line in lines]
    file.write_bytes(b"".join(with_prefix) + with_prefix[-1][:60])
    return file


def test_it_puts_what_was_spooled_as_it_was_and_names_a_line_that_is_cut(
    run: Run, tube: greenstalk.Client[bytes], saved: Path
) -> None:
    done = run("recover", str(saved))

    assert bodies(tube) == JOBS
    assert done.code == 1
    assert done.lines == [f"r{number}  usps 940{number}" for number in range(3)]
    assert f"{saved}:5" in done.err
    assert "not whole" in done.err


def test_it_reads_standard_input_and_only_lists_in_a_dry_run(
    run: Run, tube: greenstalk.Client[bytes]
) -> None:
    text = "".join(json.dumps({"spooled": job}, separators=(",", ":")) + "\n" for job in JOBS)

    dry = run("recover", "--dry-run", "--json", stdin=text)
    assert [each["id"] for each in dry.json] == ["r0", "r1", "r2"]
    assert bodies(tube) == []

    assert run("recover", stdin=text).code == 0
    assert bodies(tube) == JOBS


def test_requests_to_relays_are_put_as_they_were_once_each_and_whole(
    run: Run, tube: greenstalk.Client[bytes], beanstalkd: Server, tmp_path: Path
) -> None:
    largest, other = foreign(b"\x00\xff\n" * (BODY_MOST // 3)), foreign(b"")
    file = tmp_path / "out"
    with file.open("wb") as out:
        assert write_relayed_lines([largest, other, largest], out.fileno())
        assert write_lines([json.dumps(JOBS[0]).encode()], out.fileno())
        out.write(b'{"relayed":"AA\n')

    dry = run("recover", "--dry-run", "--json", str(file))
    done = run("recover", str(file))

    assert [each.get("label") for each in dry.json] == [LABEL, LABEL, None]
    assert (done.code, "3 requests put" in done.err, "5: the line" in done.err) == (1, True, True)
    assert bodies(tube) == [JOBS[0]]
    address = (beanstalkd.host, beanstalkd.port)
    with greenstalk.Client(address, encoding=None, watch="webhooks") as webhooks:
        put = [webhooks.reserve(timeout=0).body for _ in range(2)]
        assert put == [largest, other]
        with pytest.raises(greenstalk.TimedOutError):
            webhooks.reserve(timeout=0)


def foreign(body: bytes) -> bytes:
    """The job of a request to a relay."""
    label = parse_label(LABEL)
    assert label
    at = dt.datetime(2026, 11, 26, tzinfo=dt.UTC)
    url = f"https://in.example/{LABEL}"
    return encode_foreign(ForeignRequest(new_request_id(), label, at, "POST", "/", url, (), body))


def test_what_is_no_request_is_named_and_left_out(run: Run, tube: greenstalk.Client[bytes]) -> None:
    bad = [
        '{"spooled":{"payload":{"slug":"nobody","number":"94001"}}}',
        '{"spooled":[]}',
        '{"spooled":{"payload":1}}',
        '{"spooled":null}',
    ]

    done = run("recover", stdin="\n".join(bad))

    assert done.code == 1
    assert "no courier" in done.err
    assert done.err.count("left out") == len(bad)
    assert bodies(tube) == []


def test_an_output_without_a_spooled_request_is_told(offline: Run) -> None:
    done = offline("recover", stdin=LOGGED.decode())
    assert (done.code, done.err) == (0, "tracker: no spooled request stands there\n")


def test_at_a_terminal_it_asks_for_a_file(offline: Run) -> None:
    done = offline("recover", at_terminal=True)
    assert done.code == 2
    assert "name the FILE" in done.err


def test_without_a_server_it_says_so(offline: Run) -> None:
    done = offline("recover", stdin=json.dumps({"spooled": JOBS[0]}, separators=(",", ":")))

    assert done.code == 3
    assert "put all of them again" in done.err


def test_a_file_that_is_not_there_is_told(offline: Run) -> None:
    assert "nowhere.log" in offline("recover", "nowhere.log").err


def test_a_reader_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.operator.spool.STUCK_MS", 50)
    reading, writing = os.pipe()
    try:
        assert not write_lines([b'{"x":"%b"}' % (b"x" * 5_000)] * 100, writing)
    finally:
        os.close(reading)
        os.close(writing)


def test_long_lines_are_written_whole(tmp_path: Path) -> None:
    jobs = [b'{"x":"%b"}' % (b"x" * size) for size in (1, 4_000, 4_096, 20_000, 1)]
    with (tmp_path / "out").open("wb") as out:
        assert write_lines(jobs, out.fileno())

    written = (tmp_path / "out").read_bytes().splitlines()
    assert written == [b'{"spooled":' + job + b"}" for job in jobs]


AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
AT_MS = round(AT.timestamp() * 1000)


def opened(collections: Any, identity: str, number: str = "94001", **other: Any) -> None:
    """What `[redis] mirror` wrote of a request; without an id where `job` names its job."""
    payload = {"slug": "usps", "number": number} | ({} if "job" in other else {"id": identity})
    slug = other.pop("slug", "usps")
    job = {"type": "requests_flow", "payload": payload | {"slug": slug}}
    document = {
        "_id": identity,
        "id": identity,
        "slug": slug,
        "number": number,
        "state": "WAITING",
        "admitted_at": AT,
        "anonymous": bool(other.pop("job", None)),
        "body": json.dumps(job).encode(),
    }
    collections.operations.insert_one(document)


def left(collections: Any) -> list[str]:
    return sorted(each["_id"] for each in collections.operations.find({"state": "WAITING"}))


def test_what_redis_lost_is_put_under_its_id_as_often_as_one_asks(
    run: Run, tube: greenstalk.Client[bytes], collections: Any
) -> None:
    opened(collections, "order-1")
    for _ in range(2):
        done = run("recover", "--redis")

        assert (done.code, done.lines) == (0, ["order-1  usps 94001"])
        assert done.err == "tracker: 1 of 1 open requests were put, 0 had ended\n"
        (job,) = bodies(tube)
        assert job["payload"] == {"slug": "usps", "number": "94001", "id": "order-1"}
    assert left(collections) == ["order-1"]


def test_a_lost_request_without_an_id_is_put_once_under_one_made_of_its_job(
    run: Run, tube: greenstalk.Client[bytes], collections: Any
) -> None:
    opened(collections, "usps:94001:key-of-the-job", job=True)

    dry = run("recover", "--redis", "--dry-run", "--json")
    assert (left(collections), bodies(tube)) == (["usps:94001:key-of-the-job"], [])
    done = run("recover", "--redis", "--json")
    (job,) = bodies(tube)

    assert (left(collections), dry.json[0]["id"]) == ([], done.json[0]["id"])
    assert job["payload"] == {"slug": "usps", "number": "94001", "id": dry.json[0]["id"]}
    assert dry.json[0]["id"].startswith("recovered-")
    assert run("recover", "--redis").lines == []


def test_what_redis_knows_is_left_as_it_is(
    run: Run, tube: greenstalk.Client[bytes], collections: Any, store: redis.Redis
) -> None:
    waiting = {"status": "WAITING", "tracking": "usps:94001", "at": AT_MS}
    store.set("tracking:status:waits", json.dumps(waiting))
    store.set("tracking:status:ended", json.dumps(waiting | {"status": "SUCCESS"}))
    for each in ("waits", "ended"):
        opened(collections, each)
    # Requests without an id are known by their number's record: the first, and from when to when.
    anon = {"id": "first", "last": "last", "at": AT_MS + 5, "count": 3}
    store.hset("wait_requests:usps", "94002", json.dumps({"since": AT_MS, "anon": anon}))
    flying = {"n": "94003", "since": AT_MS - 5, "anon": anon | {"at": AT_MS}}
    store.hset("wait_inflight:usps", mapping={"=94003": "call-1", "call-1": json.dumps(flying)})
    later = {"since": AT_MS + 1, "anon": anon}
    store.hset("wait_requests:usps", "94004", json.dumps(later))
    for number in ("94002", "94003", "94004"):
        opened(collections, f"usps:{number}:middle", number, job=True)

    done = run("recover", "--redis")

    assert [line.rpartition(" ")[2] for line in done.lines] == ["94004"]
    assert [job["payload"]["number"] for job in bodies(tube)] == ["94004"]
    assert left(collections) == ["ended", "usps:94002:middle", "usps:94003:middle", "waits"]


def test_what_ended_before_it_was_written_down_is_deleted_and_an_earlier_use_of_its_id_is_not_it(
    run: Run, tube: greenstalk.Client[bytes], collections: Any
) -> None:
    for identity, days in (("ended", 0), ("again", -2)):
        opened(collections, identity)
        at = AT + dt.timedelta(days=days)
        ended = {"_id": f"{identity}@1", "id": identity, "finished_at": at, "state": "SUCCESS"}
        collections.operations.insert_one(ended)

    done = run("recover", "--redis")

    assert done.lines == ["again  usps 94001"]
    assert [job["payload"]["id"] for job in bodies(tube)] == ["again"]
    assert "1 of 2 open requests were put, 1 had ended" in done.err
    assert left(collections) == ["again"]


def test_a_lost_request_for_a_courier_that_is_gone_is_named_and_kept(
    run: Run, tube: greenstalk.Client[bytes], collections: Any
) -> None:
    opened(collections, "order-1", slug="gone-post")
    opened(collections, "order-2")

    done = run("recover", "--redis")

    assert (done.code, done.lines) == (1, ["order-2  usps 94001"])
    assert [job["payload"]["id"] for job in bodies(tube)] == ["order-2"]
    assert "order-1" in done.err
    assert left(collections) == ["order-1", "order-2"]


def test_where_nothing_is_mirrored_it_says_so(run: Run) -> None:
    assert "[redis] mirror is off" in run("recover", "--redis").err


def test_without_redis_nothing_is_put(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(collections, "order-1")
    monkeypatch.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")

    assert run("recover", "--redis").code == 3


def test_it_reads_either_a_file_or_what_redis_lost(offline: Run) -> None:
    assert offline("recover", "--redis", "ingest.log").code == 2
