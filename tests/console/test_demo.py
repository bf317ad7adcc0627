"""The demo as somebody sees it at a terminal of 80 columns and 24 lines, and its proof."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from devstack.site.remote import CourierSite
from service.console.arguments import UsageError
from service.console.demo import screen
from service.console.demo.proof import Evidence, figures, lost
from service.console.demo.script import (
    CONCURRENT,
    COURIERS,
    FAILING,
    HOOKED,
    PER_SECOND,
    POSTED,
    SLOW,
    SLOW_SECONDS,
    requests,
)
from service.console.demo.stage import Stage, start_worker
from service.worker.deliveries.signing import new_secret, standard

ROOT = Path(__file__).parents[2]
COLUMNS, LINES = 80, 24
DEADLINE = 30.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*\b(3[0-7]|9[0-7]|38;)[0-9;]*m")
SIZES = {"COLUMNS", "LINES"}
FIGURES = {"most_in_flight": 20, "most_starts_in_any_second": 2, "rate_share": 0.978}
HEADERS = ["courier", "parcels", "stored", "dead", "waiting", "running", "starts/s"]


def console(**environment: str) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    variables = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    made = Console(file=out, force_terminal=True, _environ={**variables, **environment})
    return made, out


def drawn(what: RenderableType) -> list[str]:
    made, out = console()
    made.print(what)
    return CONTROL.sub("", out.getvalue()).splitlines()


def progress(news: str = "All requests are put.") -> screen.Progress:
    full = {"running": 20, "concurrent": 20, "started_last_second": 2, "per_second": 2}
    views = [
        SimpleNamespace(line=each.slug, waiting_manual=24, waiting_later=0, **full)
        for each in COURIERS
    ]
    parcels = {each.slug: each.parcels for each in COURIERS}
    return screen.Progress(12.0, parcels, parcels, {FAILING[0]: 1}, views, news)


def test_the_live_table_shows_every_column_whole() -> None:
    made, out = console()
    with screen.Screen(made) as shown:
        shown.show(progress())

    lines = CONTROL.sub("", out.getvalue()).splitlines()
    header = next(index for index, line in enumerate(lines) if "courier" in line)
    assert lines[header].split() == HEADERS
    rows = lines[header + 1 : header + 1 + len(COURIERS)]
    assert [row.split()[0] for row in rows] == [each.slug for each in COURIERS]
    assert all(row.split()[-3:-1] == ["20/20", "2/2"] for row in rows)
    assert "…" not in out.getvalue()


def test_the_live_view_leaves_room_on_a_small_terminal() -> None:
    assert len(drawn(screen.live(progress()))) <= LINES


def test_a_dumb_terminal_is_told_at_once_and_when_something_happens() -> None:
    made, out = console(TERM="dumb")
    with screen.Screen(made) as shown:
        shown.show(progress())
        assert "stored 194 of 194" in out.getvalue()
        shown.show(progress("kill -9 4242"))
        assert "kill -9 4242" in out.getvalue()

    assert "\x1b" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= COLUMNS


def test_no_color_is_kept() -> None:
    coloured, plain = console(), console(NO_COLOR="1")
    for made, _ in (coloured, plain):
        with screen.Screen(made) as shown:
            shown.show(progress())
        made.print(screen.proof(figures(evidence())))

    assert COLOUR.search(coloured[1].getvalue())
    assert not COLOUR.search(plain[1].getvalue())


def evidence() -> Evidence:
    """What a demo ends with in which everything went well."""
    put = list(requests())
    stored = [
        {
            "slug": slug,
            "tracking_number": number,
            "last_checked_at": None if (slug, number) == FAILING else 1,
        }
        for slug, number in set(put)
    ]
    dead = [
        {"slug": FAILING[0], "number": FAILING[1], "reason": "courier_down"},
        {"slug": None, "number": None, "reason": "bad_number"},
    ]
    site = {"usps": {"calls": 201} | FIGURES}
    ends = {"calls_for_copied": 1, "killed": 1, "exit_code": 0, "door_exit_code": 0}
    taken = sum(slug in POSTED for slug, _ in put)
    secret = new_secret()
    hooks = [webhook(number, secret) for slug, number in set(put) if slug == HOOKED]
    return Evidence(put, stored, dead, site, **ends, taken=taken, webhooks=hooks, secret=secret)


def webhook(number: str, secret: str) -> dict[str, Any]:
    """A webhook as the courier site records it."""
    body = json.dumps({"type": "parcel.changed", "data": {"number": number}}).encode()
    headers = standard([new_secret(), secret], f"OF{number}", 1_795_780_800, body)
    return {"headers": headers, "body": base64.b64encode(body).decode()}


def wrong(found: Evidence) -> list[str]:
    return [figure.name for figure in figures(found) if not figure.kept]


def test_the_proof_fits_and_says_ok() -> None:
    lines = drawn(screen.proof(figures(evidence())))

    assert wrong(evidence()) == []
    assert not [line for line in lines if "…" in line or "WRONG" in line]
    assert max(map(len, lines)) <= COLUMNS


def test_the_figures_are_explained() -> None:
    words = " ".join(screen.explanation(evidence()).split())

    assert words.startswith("Why 216, 196 and 195: one request is malformed, and 20 are for one")
    assert "Why 201 calls: usps is asked for several numbers in one" in words


def test_the_slow_courier_has_all_its_places_taken_at_the_rate_that_it_allows() -> None:
    [parcels] = [each.parcels for each in COURIERS if each.slug == SLOW]

    assert CONCURRENT < PER_SECOND * SLOW_SECONDS
    assert parcels > CONCURRENT


def test_the_proof_names_what_was_not_kept() -> None:
    good = evidence()
    fast = {"usps": FIGURES | {"most_in_flight": 21, "most_starts_in_any_second": 3}}

    assert wrong(replace(good, dead=good.dead[:-1])) == ["dead: bad_number (the malformed one)"]
    assert wrong(replace(good, site=fast)) == [
        "most calls in flight at a courier",
        "most starts in any second at a courier",
    ]
    assert wrong(replace(good, calls_for_copied=2)) == ["calls for the number put 20 times"]
    assert wrong(replace(good, exit_code=1)) == ["exit code of the worker"]
    assert wrong(replace(good, door_exit_code=1)) == ["exit code of the door"]
    assert wrong(replace(good, taken=1)) == ["posted over HTTP and taken (202)"]
    assert wrong(replace(good, secret=new_secret())) == ["of these with a valid signature"]
    twice = [*good.webhooks, good.webhooks[0]]
    assert wrong(replace(good, webhooks=twice)) == []
    assert len(wrong(replace(good, webhooks=good.webhooks[1:]))) == 2


def test_a_webhook_is_shown_with_its_signature_and_says_valid() -> None:
    good = evidence()
    lines = drawn(screen.webhook(good.webhooks[0], good.secret))

    assert any("valid" in line for line in lines)
    assert not [line for line in lines if "…" in line or "WRONG" in line]
    assert any("WRONG" in line for line in drawn(screen.webhook(good.webhooks[0], new_secret())))


def test_a_lost_request_is_named_by_the_proof() -> None:
    good = evidence()
    gone = next(each for each in good.stored if each["tracking_number"] != FAILING[1])
    without = replace(good, stored=[each for each in good.stored if each is not gone])

    assert lost(without) == [(gone["slug"], gone["tracking_number"])]
    assert wrong(without) == ["answered and stored", "lost"]


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    site: CourierSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    assert Stage({"site": {"url": site.url}}, {}).judged() == {}


def test_a_worker_that_ends_by_itself_is_told_with_its_last_words() -> None:
    stage = Stage({"site": {"url": "http://127.0.0.1:1"}}, {"TRACKER_REDIS__URL": "nonsense"})

    with start_worker(stage) as worker:
        worker.process.wait(DEADLINE)

        with pytest.raises(UsageError, match=r"with exit code 2:[^$]*TRACKER_REDIS__URL"):
            worker.check()


class Terminal:
    """The demo at a terminal of its own, of 80 columns and 24 lines."""

    def __init__(self) -> None:
        self.shown = ""
        self._side, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        told = {name: text for name, text in os.environ.items() if name not in SIZES}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, str(ROOT / "worker.py"), "demo"],
            env={**told, "TERM": "xterm-256color"},
            stdin=its,
            stdout=its,
            stderr=its,
        )
        os.close(its)

    def await_shown(self, words: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while words not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{words!r} was not shown in {DEADLINE} s, but:\n{self.shown}"
            if select.select([self._side], [], [], left)[0]:
                self.shown += CONTROL.sub("", self._read())

    def _read(self) -> str:
        try:
            return os.read(self._side, 65536).decode(errors="replace")
        except OSError:  # nobody has the terminal open any more
            pytest.fail(f"the demo ended after it showed:\n{self.shown}")

    def press(self, key: bytes) -> None:
        os.write(self._side, key)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._side)


def test_the_demo_shows_progress_from_its_start_and_ends_on_ctrl_c() -> None:
    with closing(Terminal()) as terminal:
        terminal.await_shown("Starting the servers")
        terminal.await_shown("mongod")
        terminal.await_shown("Look at it: http://127.0.0.1:")
        terminal.await_shown("starts/s")
        terminal.press(b"\x03")
        terminal.await_shown("Interrupted. Servers and workers are stopped")

        assert terminal.process.wait(DEADLINE) == 130
        assert "…" not in terminal.shown
        assert "Traceback" not in terminal.shown
