"""`recover`: what a door wrote on standard output when it spooled is put."""

from __future__ import annotations

import json
import os
from pathlib import Path

import greenstalk
import pytest
from command_line import Run, bodies

from service.client.saved_lines import write_lines

JOBS = [
    {
        "type": "requests_flow",
        "payload": {"slug": "usps", "number": f"940{number}", "id": f"r{number}"},
        "meta": {"enqueued_at": 1.5},
    }
    for number in range(3)
]
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
    assert (done.code, done.err) == (0, "worker.py: no spooled request stands there\n")


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
    monkeypatch.setattr("service.client.saved_lines.STUCK_MS", 50)
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
