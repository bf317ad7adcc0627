"""stats: what happened lately, in words and columns, and for machines."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import redis
from command_line import Run

from limits import keys
from service.console.stats import columns_for
from service.worker.results.statistics import save_days
from tracking.tally import Day, tally_of

FIELDS = {"SUCCESS 100 250": 8, "ERROR 2500 1000": 1, "lost - 60000": 1, "malformed": 2}
DAY = 86_400


def at(span: int, ago: int = 0) -> int:
    return int(time.time()) // span * span - ago * span


def test_stats_draws_the_last_hour_of_all_couriers(run: Run, store: redis.Redis) -> None:
    store.hset(keys.ten_seconds(at(10)), mapping=FIELDS)
    store.hset(keys.ten_seconds(at(10, 100)), mapping={"SUCCESS 100 100": 4})

    done = run("stats")

    assert done.code == 0
    assert done.lines[0].startswith("all couriers, ")
    assert "each column is 1 min" in done.out
    rows = {line.split()[0]: line for line in done.lines if line.strip()}
    assert rows["SUCCESS"].split()[1:3] == ["12", "8"]
    assert rows["SUCCESS"].endswith("█")
    assert rows["ERROR"].split()[1] == rows["lost"].split()[1] == "1"
    assert rows["CANCELLED"].split()[1] == "0"
    assert rows["calls"].split()[1:3] == ["14", "10"]
    assert rows["malformed"].split()[1] == "2"
    assert "repeated" not in rows
    assert rows["waited"].split()[1:7] == ["0.05", "s", "1.52", "s", "2.30", "s"]


def test_stats_tells_machines_the_same(run: Run, store: redis.Redis) -> None:
    store.hset(keys.ten_seconds(at(10)), mapping=FIELDS)

    (told,) = run("stats", "--last", "30s", "--json").json

    assert (told["slug"], told["each_seconds"], len(told["spans"])) == (None, 10, 4)
    total = told["total"]
    assert (total["operations"], total["SUCCESS"], total["calls"]) == (9, 8, 10)
    assert (total["lost"], total["malformed"], total["full"]) == (1, 2, 0)
    assert total["took"]["p50"] is not None
    assert sum(each["operations"] for each in told["spans"]) == 9
    assert {each["waited"]["p99"] for each in told["spans"] if not each["operations"]} == {None}
    begins = [dt.datetime.fromisoformat(each["at"]).timestamp() for each in told["spans"]]
    since = dt.datetime.fromisoformat(told["since"]).timestamp()
    assert begins == [since + n for n in (0, 10, 20, 30)]


def test_stats_tell_times_to_the_millisecond(run: Run, store: redis.Redis) -> None:
    store.hset(keys.ten_seconds(at(10)), mapping={"SUCCESS 100 250": 3, "ERROR 2500 1000": 4})
    store.hset(keys.ten_seconds(at(10, 100)), mapping={"SUCCESS 100 60000": 7})

    (told,) = run("stats", "--json").json

    times = [
        seconds
        for each in (told["total"], *told["spans"])
        for name in ("waited", "took")
        for seconds in each[name].values()
        if seconds is not None
    ]
    assert times == [round(seconds, 3) for seconds in times]
    assert told["total"]["waited"]["p50"] == 0.07


def test_stats_of_a_courier_and_of_more_than_an_hour_are_counted_by_ten_minutes(
    run: Run, store: redis.Redis
) -> None:
    store.hset(keys.ten_minutes(at(600), "usps"), mapping=FIELDS)
    store.hset(keys.ten_minutes(at(600), ""), mapping={"SUCCESS 100 250": 20})

    (usps,) = run("stats", "--slug", "usps", "--json").json
    (everybody,) = run("stats", "--last", "24h", "--json").json

    assert (usps["each_seconds"], usps["total"]["operations"]) == (600, 9)
    assert (everybody["each_seconds"], everybody["total"]["operations"]) == (1_800, 20)


def test_stats_cover_all_that_is_asked_for_however_young_the_newest_span_is(
    run: Run, store: redis.Redis
) -> None:
    """Right after 12:10 the last ten minutes are those from 12:00 on, too."""
    store.hset(keys.ten_minutes(at(600, 1), "usps"), mapping=FIELDS)
    store.hset(keys.day(at(DAY, 9)), mapping=FIELDS)

    (minutes,) = run("stats", "--slug", "usps", "--last", "10m", "--json").json
    (quarter,) = run("stats", "--slug", "usps", "--last", "14m", "--json").json
    (days,) = run("stats", "--last", "9d", "--json").json

    for told in (minutes, quarter, days):
        assert told["total"]["operations"] == 9
    assert len(minutes["spans"]) == 2


def test_a_narrow_terminal_gets_as_many_columns_as_it_holds() -> None:
    rows = [columns_for(width) for width in (40, 80, 97, 400)]

    assert rows == [10, 44, 61, 61]


def test_stats_of_days_come_from_redis_and_from_mongodb_where_it_has_let_go(
    run: Run, store: redis.Redis, collections: Any
) -> None:
    today, old = at(DAY), at(DAY, 20)
    store.hset(keys.day(today), mapping=FIELDS)
    save_days(
        collections.statistics,
        [Day(today, "", tally_of([{"SUCCESS 100 -": 1}])), Day(old, "", tally_of([FIELDS]))],
    )

    (told,) = run("stats", "--last", "90d", "--json").json

    assert (told["total"]["operations"], told["each_seconds"]) == (18, 2 * DAY)


def test_a_redis_that_lost_its_state_tells_no_less_of_a_day_than_mongodb(
    run: Run, store: redis.Redis, collections: Any
) -> None:
    store.hset(keys.day(at(DAY)), mapping={"SUCCESS 100 250": 1, "full": 1})
    save_days(collections.statistics, [Day(at(DAY), "", tally_of([FIELDS]))])

    (told,) = run("stats", "--last", "30d", "--json").json

    assert (told["total"]["operations"], told["total"]["full"], told["total"]["calls"]) == (
        9,
        1,
        10,
    )


def test_stats_without_anything_says_so(run: Run) -> None:
    done = run("stats", "--slug", "usps")

    assert done.code == 1
    assert "nothing happened in this time" in done.out


def test_stats_names_a_courier_that_there_is_not(run: Run) -> None:
    done = run("stats", "--slug", "uspz")

    assert done.code == 2
    assert "usps" in done.err
