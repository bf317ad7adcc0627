"""The instruments work on real processes and real servers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer
from urllib.parse import urlsplit

import pytest

from benchmarks import courier_stub
from benchmarks.__main__ import main
from benchmarks.courier import Courier
from benchmarks.courier_stub import feed
from benchmarks.pages import PAGE
from benchmarks.report import Report
from benchmarks.tube import REQUESTS, Tubes, requests
from benchmarks.worker_tree import Addresses, Meter, Setting, configuration, tree
from couriers.json_feed import parse
from devstack.nursery import Nursery
from devstack.servers import Server
from service.config.load import load


@pytest.fixture
def courier(tmp_path: Path) -> Iterator[Courier]:
    with Nursery() as nursery, Courier.running(nursery, tmp_path) as running:
        yield running


@pytest.fixture
def tubes(beanstalkd: Server) -> Iterator[Tubes]:
    with Tubes(beanstalkd.host, beanstalkd.port) as opened:
        yield opened


def ask(courier: Courier, *targets: str) -> list[bytes]:
    connection = http.client.HTTPConnection(courier.url.removeprefix("http://"), timeout=10)
    bodies = []
    for target in targets:
        connection.request("GET", target)
        bodies.append(connection.getresponse().read())
    connection.close()
    return bodies


def test_the_courier_answers_what_the_feed_module_reads() -> None:
    tracking = parse(200, {}, feed(), "N0001")

    assert len(tracking.checkpoints) == 8
    assert len(feed()) == pytest.approx(1400, abs=50)


def test_the_courier_answers_for_several_numbers_in_one_call(courier: Courier) -> None:
    courier.reset()
    body = json.dumps({"numbers": ["A1", "B2", "C3"]})
    with closing(http.client.HTTPConnection(urlsplit(courier.url).netloc, timeout=10)) as asking:
        for _ in range(2):
            asking.request("POST", "/acme", body)
            told = json.loads(asking.getresponse().read())
            assert told == dict.fromkeys(("A1", "B2", "C3"), json.loads(feed()))

    assert courier.count() == 2
    assert [(call.slug, call.numbers) for call in courier.calls()] == [
        ("acme", ("A1", "B2", "C3"))
    ] * 2


def test_a_post_that_arrives_in_pieces_is_read_to_its_end(courier: Courier) -> None:
    courier.reset()
    place = urlsplit(courier.url)
    body = b'{"numbers":["A1"]}'
    whole = b"POST /acme HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    with socket.create_connection((str(place.hostname), place.port or 0), 10) as asking:
        for piece in (whole[:3], whole[3:-5], whole[-5:]):
            asking.sendall(piece)
            time.sleep(0.05)
        assert asking.recv(100).startswith(b"HTTP/1.1 200")

    assert [call.numbers for call in courier.calls()] == [("A1",)]


def test_the_courier_knows_how_long_it_stood_still(courier: Courier) -> None:
    with closing(http.client.HTTPConnection(courier.url.removeprefix("http://"))) as connection:
        for number, stop in enumerate((False, True, False)):
            if stop:
                os.kill(courier.pid, signal.SIGSTOP)
                Timer(0.5, os.kill, (courier.pid, signal.SIGCONT)).start()
            connection.request("GET", f"/a/{number}")
            connection.getresponse().read()

    first, stalled, last = (call.late_ns for call in courier.calls())

    assert stalled >= 490_000_000
    assert min(first, last) < 490_000_000  # of which a busy machine may spoil one


def test_calls_that_came_while_the_courier_was_stopped_in_mid_look_are_known_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock_ms = 0.0
    # How long each look takes; all find something. The second finds what came before the stop.
    durations_ms = iter((1.0, 90.0, 0.1, 1.0))

    def select(*_: object) -> list[str]:
        nonlocal clock_ms
        clock_ms += next(durations_ms)
        return ["something"]

    monkeypatch.setattr(courier_stub, "monotonic_ns", lambda: round(clock_ms * 1e6))
    monkeypatch.setattr(courier_stub.selectors.DefaultSelector, "select", select)
    looks = courier_stub.Looks()
    late_ms = []
    for _ in range(4):
        looks.select()
        late_ms.append(looks.late_ns(round(clock_ms * 1e6)) / 1e6)

    assert late_ms == [0.0, 90.0, 90.1, 0.0]


def test_the_courier_stamps_every_call_until_it_is_told_to_forget(courier: Courier) -> None:
    courier.reset(delay_ms=30)
    before = time.monotonic_ns()
    bodies = ask(courier, "/bench-0001/N0001", "/bench-0002/N0002")

    calls = courier.calls()
    courier.reset()

    assert bodies == [feed(), feed()]
    assert [(call.slug, call.number) for call in calls] == [
        ("bench-0001", "N0001"),
        ("bench-0002", "N0002"),
    ]
    first, second = calls
    assert before < first.arrived_ns < (first.ended_ns or 0) < second.arrived_ns
    assert (first.ended_ns or 0) - first.arrived_ns >= 29_000_000
    assert courier.count() == 0


def test_cpu_is_counted_by_group() -> None:
    meter = Meter({"ours": [os.getpid()]})
    before = meter.read()
    until = time.process_time() + 0.1

    while time.process_time() < until:
        pass

    assert meter.since(before)["ours"] >= 0.05


def test_a_tree_holds_the_children(courier: Courier) -> None:
    assert courier.pid in tree(os.getpid())


def test_jobs_are_put_while_nobody_may_take_them(tubes: Tubes) -> None:
    tubes.pause(REQUESTS, 60)

    put = tubes.put(REQUESTS, requests(["usps", "dpd-uk"], 150))

    assert put == tubes.left() == 300
    assert tubes.stats(REQUESTS)["pause"] == 60


def test_emptied_tubes_hold_nothing_and_are_open(tubes: Tubes) -> None:
    tubes.pause(REQUESTS, 60)
    tubes.put(REQUESTS, requests(["usps"], 3))

    tubes.empty(REQUESTS)

    assert tubes.left() == 0
    assert tubes.stats(REQUESTS)["pause"] == 0


def test_the_configuration_of_a_run_is_one_that_a_worker_takes(tmp_path: Path) -> None:
    servers = ("127.0.0.1:1", "redis://127.0.0.1:2/0", "mongodb://127.0.0.1:3")
    at = Addresses(*servers, courier="http://127.0.0.1:4", allow_loss=True)
    file = tmp_path / "config.toml"
    file.write_text(configuration(Setting(("bench-0000",), 2, limits={"per_second": 9}), at))

    config = load(str(file), {}, tmp_path).config

    assert config.worker.processes == 2
    assert config.limits.per_second == 9
    assert config.redis.allow_loss
    assert config.couriers["bench-0000"].module == "json_feed"


@pytest.mark.parametrize("there", ["{}", ""])
def test_what_is_no_report_is_not_written_into_the_page(
    tmp_path: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, page = tmp_path / "report.json", PAGE.read_text()
    kept.write_text(there)

    assert main(["--write-docs", "--json", str(kept)]) == 1

    assert PAGE.read_text() == page
    assert "no report at" in capsys.readouterr().out


@pytest.mark.prove
def test_the_quick_baseline_runs_from_the_command_line(tmp_path: Path) -> None:
    kept = tmp_path / "report.json"
    cores = os.sched_getaffinity(0)
    try:
        code = main(["--quick", "--only", "baseline", "--json", str(kept)])
    finally:
        os.sched_setaffinity(0, cores)

    table = Report.read(kept).table("baseline")
    assert code == 0
    assert table is not None
    assert all(float(row["per_second"] or 0) > 0 for row in table.rows)


def test_a_measurement_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "baseline"]
    kept = ["--json", str(tmp_path / "kept.json")]
    here = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*command, *kept], env=here, stdout=subprocess.PIPE) as measuring:
        while len(started := tree(measuring.pid)) < 3:  # itself, the courier, the loop
            assert measuring.poll() is None
            time.sleep(0.05)

        measuring.terminate()

        assert measuring.wait(30) == 130
    assert list(tmp_path.iterdir()) == []
    assert not any(map(_runs, started))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # what is dead has none
    except (FileNotFoundError, ProcessLookupError):
        return False
