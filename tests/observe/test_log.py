"""What stands in the log, and what never does."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.observe import log
from service.observe.events import Event
from service.observe.log import (
    BURST,
    KEYS_MOST,
    LINE_MOST,
    WINDOW_SECONDS,
    Throttle,
    emitter,
    json_line,
    lines,
    pretty_line,
)
from service.observe.redact import FIELD_MOST, cleaner

DOCS = Path(__file__).parents[2] / "docs" / "logs.md"
PATIENCE = 10.0
SECRETS = ("hunter22-secret", "zürich+pass")

Written = Callable[[], list[str]]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    file = tmp_path / "log"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    made = lines("json", SECRETS, worker="here:1", out=descriptor)
    log.set_up("info", made)

    def read() -> list[str]:
        assert made.out.flush(PATIENCE)
        return file.read_text().splitlines()

    yield read
    log.set_up("info", lines("json"))
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    made.out.flush(PATIENCE)
    os.close(descriptor)


def the_line(written: Written) -> dict[str, Any]:
    (line,) = written()
    return dict(json.loads(line))


def test_the_table_of_events_is_the_one_in_the_documents() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| (debug|info|warning|error) \| (.+) \|$", DOCS.read_text(), re.MULTILINE
    )
    assert [row[:2] for row in rows] == [(event.value, event.level) for event in Event]


def test_an_event_is_one_line_of_json_with_its_level_and_fields(written: Written) -> None:
    log.emit(Event.ANSWERED, slug="usps", number="9405903699300184125060", ms=12)
    line = the_line(written)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {
        "level": "info",
        "event": "request answered",
        "slug": "usps",
        "number": "9405903699300184125060",
        "ms": 12,
        "worker": "here:1",
    }


def test_what_is_below_the_level_is_not_written(written: Written) -> None:
    log.emit(Event.PARKED, slug="usps")
    assert written() == []


def test_a_line_tells_the_instant_at_which_it_was_made(written: Written) -> None:
    before = dt.datetime.now(dt.UTC)
    log.emit(Event.ANSWERED)
    after = dt.datetime.now(dt.UTC)
    told = dt.datetime.fromisoformat(the_line(written)["ts"])
    assert before - dt.timedelta(milliseconds=1) < told <= after


@pytest.mark.parametrize("now", [0, 1_700_000_000_999_999_999, 1_700_000_001_000_000_000])
def test_the_instant_is_cut_to_milliseconds(
    written: Written, monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: now)
    log.emit(Event.ANSWERED)
    second = dt.datetime.fromtimestamp(now // 10**9, dt.UTC).replace(tzinfo=None)
    ms = now // 10**6 % 1000
    assert the_line(written)["ts"] == f"{second.isoformat()}.{ms:03}Z"


@given(st.text(st.characters(exclude_characters=":= ")) | st.integers() | st.none())
@example("x" * FIELD_MOST)
@example("x" * (FIELD_MOST + 1))
@example("\x1b[2J")
def test_a_field_that_was_checked_before_is_written_like_any_other(value: str | int | None) -> None:
    written = cleaner(())({"slug": value, "why": value})
    assert written["slug"] == written["why"]


@pytest.mark.parametrize("field", ["number", "error"])
def test_no_text_can_forge_a_line_or_steer_a_terminal(written: Written, field: str) -> None:
    forged = 'x\n{"level":"error"}\r\x1b[2J\x9b31m\u2028\u202e\x00\ud800'
    log.emit(Event.ANSWERED, **{field: forged})
    (line,) = written()
    assert line.isprintable()
    assert json.loads(line)[field].startswith("x\\n{")


def test_the_pretty_form_escapes_as_well() -> None:
    clean = cleaner(())
    fields = {"ts": "2026-11-20T22:40:59.833Z", "level": "info", "event": "x"}
    text = pretty_line(fields | clean({"number": "a\nb\x1b[2J"})).decode()
    assert text.count("\n") == 1
    assert "\x1b[2J" not in text


@pytest.mark.parametrize(
    "text",
    [
        "GET failed: hunter22-secret",
        "prefix HUNTER22-SECRET suffix",
        "key zürich+pass",
        "redis://user:hunter22@host/0",
        "mongodb://u:hunter22@a:1,b:2/?x",
        "Authorization: Bearer hunter22.abc",
        "{'Authorization': 'Basic aHVudGVyMjI='}",
        "X-Api-Key: hunter22",
        "DHL-API-Key=hunter22",
        "https://h/x?apikey=hunter22&id=1",
        "https://h/x?id=1&access_token=hunter22",
        "client_secret=hunter22 tried",
        "whsec_hunter22",
        "bearer aHVudGVyMjI=",
    ],
)
def test_secrets_are_taken_out(written: Written, text: str) -> None:
    log.emit(Event.AWAY, error=ValueError(text), server=text, why=[text])
    (line,) = written()
    for secret in ("hunter22", "zürich", "aHVudGVyMjI"):
        assert secret not in line.casefold()
    assert line.count("***") >= 3


@pytest.mark.parametrize(
    "text",
    [
        "GET https://api.example.com/track/9405903699300184125060 answered 503",
        "the basic idea of keys and tokens",
        "2026-11-20T22:40:59Z host:11300 status=3",
    ],
)
def test_ordinary_text_stays_as_it_is(written: Written, text: str) -> None:
    log.emit(Event.ANSWERED, why=text)
    assert the_line(written)["why"] == text


def test_a_secret_at_the_cut_is_taken_out_whole(written: Written) -> None:
    log.emit(Event.AWAY, error="x" * (FIELD_MOST - 8) + "hunter22-secret")
    assert "hunter" not in written()[0]


def test_a_hostile_text_is_searched_quickly(written: Written) -> None:
    for hostile in ("a-" * 50_000, "://a:" * 20_000, "x-api" * 20_000, "bearer " * 20_000):
        log.emit(Event.ANSWERED, why=hostile)
    assert len(written()) == 4


def test_a_line_is_never_longer_than_a_pipe_takes_whole(written: Written) -> None:
    log.emit(Event.ANSWERED, **{f"f{index}": "é" * 1_000 for index in range(12)})
    (line,) = written()
    assert len(line.encode()) < LINE_MOST
    assert json.loads(line)["shortened"] is True


def test_a_defect_is_logged_with_the_end_of_its_traceback(written: Written) -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise ZeroDivisionError(f"{'x' * 1_000} hunter22-secret the end")

    try:
        deep(50)
    except ZeroDivisionError as error:
        log.emit_unexpected(error, slug="usps")
    line = the_line(written)
    assert line["level"] == "error"
    assert line["traceback"].rstrip("\\n").endswith("*** the end")
    assert "hunter22" not in str(line)


def test_what_a_library_warns_of_gets_the_same_form(written: Written) -> None:
    logging.getLogger("asyncio").error("lost: %s", "hunter22-secret")
    logging.getLogger("asyncio").info("not this")
    line = the_line(written)
    assert (line["event"], line["logger"], line["error"]) == (
        "library message",
        "asyncio",
        "lost: ***",
    )


def test_equal_warnings_are_thinned_out_and_counted(written: Written) -> None:
    for number in range(BURST + 5):
        log.emit(Event.RETRIED, slug="usps", number=str(number), error="the same")
    log.emit(Event.RETRIED, slug="ups", number="1", error="the same")
    for number in range(BURST + 5):
        log.emit(Event.ANSWERED, slug="usps", number=str(number))
    events = [json.loads(line)["event"] for line in written()]
    assert events.count("request will be tried again") == BURST + 1
    assert events.count("request answered") == BURST + 5


def test_the_next_warning_after_the_window_tells_how_many_were_left_out() -> None:
    now = 0.0
    repeats = Throttle(clock=lambda: now)
    fields = {"event": "x", "error": "y"}
    passed = [repeats.passes(fields | {"number": number}) for number in range(BURST + 3)]
    assert passed == [0] * BURST + [None] * 3
    now = WINDOW_SECONDS
    assert repeats.passes(fields) == 3
    now += WINDOW_SECONDS
    assert repeats.passes(fields) == 0


def test_a_line_that_differs_in_nothing_is_written_once_a_minute() -> None:
    now = 0.0
    repeats = Throttle(clock=lambda: now)
    fields = {"event": "keys cannot be refreshed", "error": ValueError("away")}
    assert [repeats.passes(fields) for _ in range(12)] == [0] + [None] * 11
    now = WINDOW_SECONDS
    assert repeats.passes(fields) == 11


def test_another_line_of_the_kind_tells_at_once_how_many_were_left_out() -> None:
    repeats = Throttle(clock=lambda: 0.0)
    for _ in range(4):
        repeats.passes({"event": "process died", "process": 1})
    assert repeats.passes({"event": "process died", "process": 2}) == 3
    assert repeats.passes({"event": "process died", "process": 3}) == 0


def test_the_memory_of_repetitions_is_bounded() -> None:
    repeats = Throttle(clock=lambda: 0.0)
    for index in range(3 * KEYS_MOST):
        assert repeats.passes({"event": "x", "error": index}) == 0
    assert len(repeats) <= KEYS_MOST


def test_a_closed_pipe_does_not_stop_the_work() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    made = lines("json", out=writer)
    emit = emitter("info", made)
    emit(Event.STARTED)
    assert made.out.flush(PATIENCE)
    os.close(writer)


def test_the_parents_lines_are_those_of_the_workers(written: Written, tmp_path: Path) -> None:
    log.emit(Event.STARTED, processes=2)
    with (tmp_path / "parent").open("wb") as file:
        made = lines("json", SECRETS, worker="here:1", out=file.fileno())
        emit = emitter("info", made)
        emit(Event.STARTED, processes=2)
        emit(Event.PARKED)
        assert made.out.flush(PATIENCE)
    parents = json.loads((tmp_path / "parent").read_text())
    assert parents.keys() == the_line(written).keys()


def test_no_value_breaks_a_line() -> None:
    fields = {"a": None, "b": 1.5, "c": True, "d": b"\xff", "e": {"f": object}, "g": 10**30}
    assert json_line(cleaner(())(fields)).endswith(b"}\n")
