"""`cancel`: what waits for a number, of a CSV file or for a courier ends as CANCELLED."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis
from command_line import Run

NUMBER = "9405903699300184125060"


def test_what_waits_for_a_number_is_cancelled(run: Run, store: redis.Redis) -> None:
    store.rpush("wait_list:usps", "94000001", NUMBER)
    done = run("cancel", "usps", f"9405-{NUMBER[4:]}")
    assert done.code == 0
    assert done.lines == [f"cancelled 1 for usps {NUMBER}"]
    assert store.lrange("wait_list:usps", 0, -1) == ["94000001"]


def test_nothing_that_waits_is_a_negative_finding(run: Run) -> None:
    done = run("cancel", "usps", NUMBER, "--json")
    assert done.code == 1
    assert done.json == [{"slug": "usps", "number": NUMBER, "cancelled": 0}]


def waits(store: redis.Redis, slug: str, number: str, operation: str) -> None:
    """A request with an id, parked as lua/lib/record.lua describes it."""
    record = {"since": 1, "newest": [operation], "ids": 1}
    store.hset(f"wait_requests:{slug}", number, json.dumps(record))
    waiting = {"status": "WAITING", "tracking": f"{slug}:{number}", "at": 1}
    store.set(f"tracking:status:{operation}", json.dumps(waiting))
    store.rpush(f"wait_list:{slug}", number)
    store.sadd("wait_slugs", slug)


def cancelled(store: redis.Redis, operation: str) -> bool:
    status = store.get(f"tracking:status:{operation}")
    return status is not None and json.loads(status)["status"] == "CANCELLED"


def test_one_request_is_cancelled_by_its_id(run: Run, store: redis.Redis) -> None:
    waits(store, "usps", NUMBER, "order-1")
    done = run("cancel", "usps", NUMBER, "--id", "order-1")
    assert done.code == 0
    assert done.lines == [f"cancelled order-1 for usps {NUMBER}"]
    assert cancelled(store, "order-1")


@pytest.mark.parametrize("named", [("usps", "94000001"), ("dpd-uk", NUMBER)])
def test_an_id_of_another_parcel_is_refused_and_that_parcel_is_named(
    run: Run, store: redis.Redis, named: tuple[str, str]
) -> None:
    waits(store, "usps", NUMBER, "order-1")
    done = run("cancel", *named, "--id", "order-1")
    assert done.code == 2
    assert f"write: cancel usps {NUMBER} --id order-1" in done.out
    assert not cancelled(store, "order-1")


def test_an_unknown_id_is_refused_and_may_be_put_later(run: Run, store: redis.Redis) -> None:
    done = run("cancel", "usps", NUMBER, "--id", "ordr-1")
    assert done.code == 1
    assert f"no request with the id ordr-1 waits for usps {NUMBER}" in done.out
    assert not store.exists("tracking:status:ordr-1")


def test_an_id_that_has_ended_keeps_its_end(run: Run, store: redis.Redis) -> None:
    store.set("tracking:status:order-1", '{"status":"SUCCESS"}', ex=60)
    done = run("cancel", "usps", NUMBER, "--id", "order-1")
    assert done.code == 1
    assert done.lines == ["order-1 has already ended: SUCCESS"]
    as_json = run("cancel", "usps", NUMBER, "--id", "order-1", "--json").json[0]
    assert as_json == {
        "slug": "usps",
        "number": NUMBER,
        "id": "order-1",
        "cancelled": 0,
        "kept": "ended",
        "detail": "SUCCESS",
    }


def test_an_id_that_runs_is_not_cut_off(run: Run, store: redis.Redis) -> None:
    waits(store, "usps", NUMBER, "order-1")
    told = json.loads(store.get("tracking:status:order-1"))
    store.set("tracking:status:order-1", json.dumps(told | {"status": "RUNNING"}))
    done = run("cancel", "usps", NUMBER, "--id", "order-1")
    assert done.code == 1
    assert done.lines == ["order-1 is with the courier now; a call that runs is not cut off"]


def test_a_courier_that_does_not_exist_is_refused(offline: Run) -> None:
    assert offline("cancel", "nobody", NUMBER).code == 2


NUMBERS = [f"94059036993001841250{n:02}" for n in range(30)]


@pytest.fixture
def waiting(store: redis.Redis) -> None:
    """Thirty numbers that wait for usps, with the ids order-0 to order-29."""
    fields = {}
    for n, number in enumerate(NUMBERS):
        fields[number] = json.dumps({"since": 1, "newest": [f"order-{n}"], "ids": 1})
        waits = {"status": "WAITING", "tracking": f"usps:{number}", "at": 1}
        store.set(f"tracking:status:order-{n}", json.dumps(waits))
    store.hset("wait_requests:usps", mapping=fields)
    store.rpush("wait_list:usps", *NUMBERS)
    store.sadd("wait_slugs", "usps")


def written(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "orders.csv"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def left(store: redis.Redis) -> int:
    return sum(map(bool, store.lrange("wait_list:usps", 0, -1)))


@pytest.mark.usefixtures("waiting")
def test_the_file_that_was_put_can_be_cancelled(
    run: Run, store: redis.Redis, tmp_path: Path
) -> None:
    rows = [f"usps,{number},order-{n},8000" for n, number in enumerate(NUMBERS[:12])]
    file = written(tmp_path, "slug,number,id,postal_code", *rows)
    done = run("cancel", "--csv", file, "--yes")
    assert done.code == 0
    assert done.lines[0] == f"cancelled order-0 for usps {NUMBERS[0]}"
    assert done.lines[-1] == "cancelled 12 requests, in 12 of 12 rows"
    assert left(store) == 18


@pytest.mark.usefixtures("waiting")
def test_each_row_has_its_own_answer(run: Run, store: redis.Redis, tmp_path: Path) -> None:
    rows = [f"{NUMBERS[0]},order-1", f"{NUMBERS[2]},", "94000000,", f"{NUMBERS[3]},ordr-3"]
    file = written(tmp_path, "number,id", *rows)
    done = run("cancel", "--csv", file, "--slug", "usps", "--yes", "--json")
    assert done.code == 1
    told = [(each["cancelled"], each.get("kept"), each.get("detail")) for each in done.json]
    assert told == [
        (0, "elsewhere", f"usps {NUMBERS[1]}"),
        (1, None, None),
        (0, None, None),
        (0, "unknown", ""),
    ]
    assert left(store) == 29


@pytest.mark.usefixtures("waiting")
def test_several_numbers_may_be_named(run: Run, store: redis.Redis) -> None:
    done = run("cancel", "usps", *NUMBERS[:3])
    assert done.code == 0
    assert len(done.lines) == 4
    assert left(store) == 27


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("as_json", [True, False])
def test_all_that_waits_for_a_courier_is_cancelled(
    run: Run, store: redis.Redis, *, as_json: bool
) -> None:
    done = run("cancel", "--slug", "usps", "--yes", *(["--json"] if as_json else []))
    assert done.code == 0
    if as_json:
        assert done.json == [{"slug": "usps", "numbers": 30, "cancelled": 30}]
    else:
        assert done.lines == [
            "cancelled 30 requests for 30 numbers of usps",
            "jobs that no worker has taken from the tubes yet are not reached; cancel again later",
        ]
    assert left(store) == 0
    again = run("cancel", "--slug", "usps", "--yes", "--json")
    assert (again.code, again.json) == (1, [{"slug": "usps", "numbers": 0, "cancelled": 0}])


@pytest.mark.usefixtures("waiting")
def test_much_is_asked_about_first(run: Run, store: redis.Redis, tmp_path: Path) -> None:
    file = written(tmp_path, "slug,number", f"usps,{NUMBERS[0]}", f"usps,{NUMBERS[1]}")
    for which in (["--csv", file], ["--slug", "usps"]):
        refused = run("cancel", *which, stdin="y\n")
        assert refused.code == 2
        assert "--yes" in refused.err
        assert run("cancel", *which, stdin="n\n", at_terminal=True).code == 1
    assert left(store) == 30
    asked = run("cancel", "--slug", "usps", stdin="y\n", at_terminal=True)
    assert "Cancel all that waits for usps: 30 numbers?" in asked.err
    assert left(store) == 0


@pytest.mark.parametrize("which", [["--slug", "usps"], ["--older-than", "2h"]])
def test_where_nothing_waits_nobody_is_asked(run: Run, which: list[str]) -> None:
    done = run("cancel", *which)

    assert (done.code, done.err) == (1, "")
    assert done.lines[0] in {
        "cancelled 0 requests for 0 numbers of usps",
        "nothing waits for any courier",
    }


def test_of_what_waits_behind_a_running_call_somebody_is_asked(
    run: Run, store: redis.Redis
) -> None:
    store.sadd("wait_slugs", "usps")

    assert "--yes" in run("cancel", "--slug", "usps").err


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["--csv", "-", "--yes"], f"slug,number\nusps,{NUMBERS[0]}\nuspss,{NUMBERS[1]}\n", "-:3: "),
        (
            ["--csv", "-", "--yes"],
            f"slug,number\nusps,{NUMBERS[0]}\nuspss,1\n",
            "did you mean usps",
        ),
        (["--csv", "-", "--yes"], "slug,number\n", "holds no request"),
        (["--slug", "uspss", "--yes"], "", "did you mean usps?"),
        (["usps", *NUMBERS[:2], "--id", "order-0"], "", "--id names one request"),
        (["usps"], "", "SLUG NUMBER"),
        (["--slug", "usps", "--id", "order-0"], "", "--id names one request"),
        ([], "", "SLUG NUMBER"),
    ],
)
def test_what_is_not_meant_or_not_understood_cancels_nothing(
    run: Run, store: redis.Redis, arguments: list[str], stdin: str, told: str
) -> None:
    done = run("cancel", *arguments, stdin=stdin)
    assert done.code == 2
    assert told in done.err
    assert left(store) == 30


def test_what_was_cancelled_before_redis_went_away_is_told(offline: Run) -> None:
    done = offline("cancel", "--slug", "usps", "--yes")
    assert done.code == 3
    assert "Redis" in done.err


@pytest.fixture
def mixed(store: redis.Redis) -> None:
    """Of usps an old AUTOMATIC request; of gls an old one, and one that came just now."""
    now_ms = int(store.time()[0]) * 1000
    wishes = [
        ("usps", "AUTO", True, 1),
        ("gls", "OLD1", False, now_ms - 7_300_000),
        ("gls", "NEW1", False, now_ms),
    ]
    for slug, number, auto, since in wishes:
        record = {"since": since, "newest": [number], "ids": 1, **({"auto": True} if auto else {})}
        store.hset(f"wait_requests:{slug}", number, json.dumps(record))
        waits = {"status": "WAITING", "tracking": f"{slug}:{number}", "at": since}
        waits |= {"auto": True} if auto else {}
        store.set(f"tracking:status:{number}", json.dumps(waits))
        store.rpush(f"wait_list_automatic:{slug}" if auto else f"wait_list:{slug}", number)
        store.sadd("wait_slugs", slug)


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("arguments", "cancelled"),
    [
        (["--origin", "AUTOMATIC"], {"AUTO"}),
        (["--older-than", "2h"], {"AUTO", "OLD1"}),
        (["--older-than", "2h", "--origin", "MANUAL"], {"OLD1"}),
        (["--slug", "gls", "--older-than", "0.001s"], {"OLD1", "NEW1"}),
        (["--slug", "usps", "--origin", "MANUAL"], set()),
    ],
)
def test_what_is_old_or_of_one_origin_is_cancelled_and_nothing_else(
    run: Run, store: redis.Redis, arguments: list[str], cancelled: set[str]
) -> None:
    done = run("cancel", *arguments, "--yes", "--json")

    states = {n: json.loads(store.get(f"tracking:status:{n}")) for n in ("AUTO", "OLD1", "NEW1")}
    assert {n for n, told in states.items() if told["status"] == "CANCELLED"} == cancelled
    assert sum(each["cancelled"] for each in done.json) == len(cancelled)
    assert done.code == (0 if cancelled else 1)


@pytest.mark.usefixtures("mixed")
def test_a_filter_asks_first_and_goes_beside_no_number(run: Run) -> None:
    asked = run("cancel", "--older-than", "2h", stdin="n\n", at_terminal=True)
    beside = run("cancel", "gls", "OLD1", "--origin", "MANUAL")

    assert "every request that came 2 h ago or before for 2 couriers: up to 3" in asked.err
    assert (asked.code, beside.code) == (1, 2)
    assert "name no numbers" in beside.err


@pytest.mark.usefixtures("mixed")
def test_a_request_is_cancelled_by_its_id_alone(run: Run, store: redis.Redis) -> None:
    done = run("cancel", "--id", "OLD1")
    unknown = run("cancel", "--id", "OLD2")

    assert (done.code, done.lines) == (0, ["cancelled OLD1 for gls OLD1"])
    assert json.loads(store.get("tracking:status:OLD1"))["status"] == "CANCELLED"
    assert unknown.code == 1
    assert "no request with the id OLD2 is known" in unknown.err
