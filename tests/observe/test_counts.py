"""What is counted of the log's events, how it travels, and how Prometheus reads it."""

from __future__ import annotations

import select
import socket
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.observe import exposition
from service.observe.counts import Counts, Key
from service.observe.events import Event
from service.observe.log import emitter, lines
from service.observe.metrics import METRICS, By

SLUG = {"slug": "usps"}

TOLD: list[tuple[Event, dict[str, Any], dict[Key, int]]] = [
    (
        Event.CALLED,
        {**SLUG, "outcome": "answered", "ms": 120},
        {
            ("tracker_courier_calls_total", "usps", "answered"): 1,
            ("tracker_courier_call_duration_seconds", "usps", "3"): 1,
            ("tracker_courier_call_duration_seconds", "usps", "us"): 120_000,
        },
    ),
    (Event.ANSWERED, {**SLUG, "requests": 1}, {("tracker_requests_total", "usps", "answered"): 1}),
    (
        Event.ANSWERED,
        {**SLUG, "requests": 5},
        {
            ("tracker_requests_total", "usps", "answered"): 5,
            ("tracker_calls_saved_total", "usps", "merging"): 4,
        },
    ),
    (
        Event.SERVED_FRESH,
        SLUG,
        {
            ("tracker_requests_total", "usps", "fresh"): 1,
            ("tracker_calls_saved_total", "usps", "freshness"): 1,
        },
    ),
    (Event.CANCELLED, SLUG, {("tracker_requests_total", "usps", "cancelled"): 1}),
    (Event.REFUSED, {**SLUG, "requests": 2}, {("tracker_requests_total", "usps", "refused"): 2}),
    (
        Event.DEAD,
        {**SLUG, "error": "workers_vanished", "requests": 3},
        {
            ("tracker_requests_total", "usps", "dead"): 3,
            ("tracker_dead_requests_total", "usps", "workers_vanished"): 1,
        },
    ),
    (
        Event.MALFORMED,
        {"why": "bad_json"},
        {
            ("tracker_requests_total", "", "dead"): 1,
            ("tracker_dead_requests_total", "", "bad_json"): 1,
        },
    ),
    (
        Event.FULL,
        SLUG,
        {
            ("tracker_requests_total", "usps", "dead"): 1,
            ("tracker_dead_requests_total", "usps", "wait_list_full"): 1,
        },
    ),
    (
        Event.RETRIED,
        {**SLUG, "error": "courier_down"},
        {("tracker_call_retries_total", "usps", "courier_down"): 1},
    ),
    (
        Event.PAUSED,
        {**SLUG, "error": "rate_limited"},
        {("tracker_call_retries_total", "usps", "rate_limited"): 1},
    ),
    (
        Event.SWEPT,
        {**SLUG, "calls": 2, "drain": True, "dying": 0},
        {("tracker_repairs_total", "call"): 2, ("tracker_repairs_total", "drain"): 1},
    ),
    (Event.TASK_ENDED, {}, {("tracker_repairs_total", "task"): 1}),
    (Event.CHILD_DIED, {}, {("tracker_repairs_total", "process"): 1}),
    (Event.PARKED, SLUG, {}),
]


@pytest.mark.parametrize(("event", "fields", "expected"), TOLD)
def test_an_event_is_counted_by_its_fields_and_trouble_by_its_words_too(
    event: Event, fields: dict[str, Any], expected: dict[Key, int]
) -> None:
    counts = Counts()

    if count := counts.of_events().get(event):
        count(fields)

    if event.level in {"warning", "error"}:
        expected = {**expected, ("tracker_log_events_total", event.level, event.value): 1}
    assert counts.sums == expected


def test_events_are_counted_that_the_log_does_not_write() -> None:
    counts = Counts()
    emit = emitter("error", lines("json", out=-1), counts.of_events())

    emit(Event.SERVED_FRESH, slug="usps")

    assert counts.sums[("tracker_requests_total", "usps", "fresh")] == 1


def test_what_was_counted_arrives_whole_in_lines_that_a_pipe_takes_at_once() -> None:
    here, there = Counts(), Counts()
    for index in range(500):
        here.add(("tracker_courier_calls_total", f"courier-{index}", "answered"), index + 1)
    before = dict(here.sums)

    while news := here.news(select.PIPE_BUF):
        assert len(news) <= select.PIPE_BUF
        there.take(news)

    assert (there.sums, here.sums) == (before, {})


def test_what_could_not_be_handed_over_is_added_to_what_came_since() -> None:
    counts = Counts()
    counts.add(("tracker_repairs_total", "call"))
    news = counts.news(select.PIPE_BUF)
    counts.add(("tracker_repairs_total", "call"))

    counts.take(news)

    assert counts.sums == {("tracker_repairs_total", "call"): 2}


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """What Prometheus understands: name and labels, in the order of their names, to the value."""
    return {
        (each.name, *(value for _, value in sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text.decode())
        for each in family.samples
    }


def test_prometheus_reads_counters_gauges_and_the_buckets_of_a_histogram() -> None:
    counts = Counts()
    for ms in (5, 6, 90_000.5):
        counts.time("tracker_courier_call_duration_seconds", "usps", round(ms * 1_000))
    counts.add(("tracker_repairs_total", "drain"), 7)

    told = samples(exposition.text({By.WORKER}, counts, {("tracker_worker_processes",): 4}))

    assert told["tracker_repairs_total", "drain"] == 7
    assert told["tracker_worker_processes",] == 4
    assert told["tracker_courier_call_duration_seconds_bucket", "0.005", "usps"] == 1
    assert told["tracker_courier_call_duration_seconds_bucket", "0.025", "usps"] == 2
    assert told["tracker_courier_call_duration_seconds_bucket", "60", "usps"] == 2
    assert told["tracker_courier_call_duration_seconds_bucket", "+Inf", "usps"] == 3
    assert told["tracker_courier_call_duration_seconds_count", "usps"] == 3
    assert told["tracker_courier_call_duration_seconds_sum", "usps"] == pytest.approx(90.0115)


def test_trouble_and_repairs_are_told_before_there_are_any() -> None:
    told = samples(exposition.text({By.WORKER}, Counts(), {}))

    assert told["tracker_log_events_total", "unexpected error", "error"] == 0
    assert told["tracker_log_events_total", "server is away", "warning"] == 0
    assert {key[1] for key in told if key[0] == "tracker_repairs_total"} == {
        key[1] for _, _, keys in TOLD for key in keys if key[0] == "tracker_repairs_total"
    } | {"given_up"}


def test_every_counter_that_an_event_moves_is_in_the_catalogue_with_as_many_labels() -> None:
    wide = {metric.name: len(metric.labels) for metric in METRICS}
    counted = {key for _, _, keys in TOLD for key in keys}

    assert {len(key) - 1 - wide[key[0]] for key in counted if "seconds" not in key[0]} == {0}


def test_the_first_that_is_counted_after_a_hand_over_is_told() -> None:
    counts, told = Counts(), list[str]()
    counts.begun = lambda: told.append("begun")
    event = counts.of_events()[Event.CALLED]

    counts.add(("tracker_repairs_total", "drain"))
    counts.add(("tracker_repairs_total", "call"))
    counts.news(select.PIPE_BUF)
    event({**SLUG, "outcome": "answered", "ms": 120})
    event({**SLUG, "outcome": "answered", "ms": 120})

    assert told == ["begun", "begun"]


def test_what_was_counted_is_served_as_often_as_it_is_asked_for() -> None:
    counts = Counts()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    exposition.serve(("127.0.0.1", port), counts, dict, lambda *_, **__: None)

    for total in (1, 2):
        counts.add(("tracker_repairs_total", "drain"))
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert f'tracker_repairs_total{{kind="drain"}} {total}.0' in answer.read().decode()


def test_a_port_that_is_taken_is_told_and_stops_nobody() -> None:
    told: list[tuple[Event, dict[str, Any]]] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        exposition.serve(
            ("127.0.0.1", port),
            Counts(),
            dict,
            lambda event, **fields: told.append((event, fields)),
        )

    [(event, fields)] = told
    assert event is Event.NO_METRICS
    assert (fields["server"], fields["error"]) == (f"127.0.0.1:{port}", "Address already in use")
    assert "[metrics] listen" in fields["fix"]
