"""Putting requests: what reaches the tube, and what is refused before anything does."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import greenstalk
import pytest
from command_line import Run, bodies

from devstack.kinds import BEANSTALKD
from devstack.servers import Server, running
from service.operator.put import Row, Sendable, jobs_of_rows
from service.worker.tubes.envelope import decode_request
from tracking.request import Slug

USPS = ("9405903699300184125060", "9405903699300184125077")


def payloads(tube: greenstalk.Client[bytes]) -> list[dict[str, Any]]:
    return [body["payload"] for body in bodies(tube)]


def test_each_number_becomes_a_job_with_an_id_of_its_own(
    run: Run, tube: greenstalk.Client[bytes]
) -> None:
    done = run("put", "usps", *USPS)
    assert done.code == 0
    found = payloads(tube)
    assert [each["number"] for each in found] == list(USPS)
    ids = [each["id"] for each in found]
    assert len(set(ids)) == 2
    assert done.lines == [f"{id_}  usps {number}" for id_, number in zip(ids, USPS, strict=True)]


def test_all_options_reach_the_job(run: Run, tube: greenstalk.Client[bytes]) -> None:
    options = ["--id", "order-7", "--origin", "AUTOMATIC", "--max-age", "0", "--expires-in", "60"]
    fields = ["--field", "postal_code=8000", "--field", "tracking_state=ZH"]
    assert run("put", "usps", USPS[0], *options, *fields, "--priority", "5", "--ttr", "7").code == 0
    job = tube.reserve(timeout=0)
    facts = tube.stats_job(job)
    assert (facts["pri"], facts["ttr"]) == (5, 7)
    request = decode_request(job.body, lambda slug: (Slug(slug), ""))
    assert (request.id, request.origin, request.max_age) == ("order-7", "AUTOMATIC", 0.0)
    assert request.fields == {"tracking_postal_code": "8000", "tracking_state": "ZH"}
    assert request.expires_at == pytest.approx(time.time() + 60, abs=30)


def test_numbers_are_read_from_standard_input(run: Run, tube: greenstalk.Client[bytes]) -> None:
    done = run("put", "usps", "--json", stdin=f"{USPS[0]}\n\n  {USPS[1]}  \r\n")
    assert [each["number"] for each in done.json] == list(USPS)
    assert len(payloads(tube)) == 2


def test_a_spreadsheets_csv_is_read(
    run: Run, tube: greenstalk.Client[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "numbers.csv"
    text = f"Number;Slug;ID;Postal Code\r\n{USPS[0]};usps;a-1;8000\r\n\r\n{USPS[1]};;b-2;\r\n"
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert run("put", "--csv", str(file), "--slug", "usps").code == 0
    first, second = payloads(tube)
    assert (first["id"], first["tracking_postal_code"]) == ("a-1", "8000")
    assert (second["slug"], second["id"]) == ("usps", "b-2")
    assert "tracking_postal_code" not in second


def test_a_csv_without_a_header_needs_a_slug(
    run: Run, tube: greenstalk.Client[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(f"{USPS[0]}\n{USPS[1]}\n")
    assert run("put", "--csv", str(file)).code == 2
    assert run("put", "--csv", str(file), "--slug", "usps").code == 0
    assert len(payloads(tube)) == 2


def test_nothing_is_put_when_one_line_is_bad(
    run: Run, tube: greenstalk.Client[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(f"slug,number\nusps,{USPS[0]}\nusps,9.40591E+21\nusp,{USPS[1]}\n")
    done = run("put", "--csv", str(file))
    assert done.code == 2
    assert f"{file}:3" in done.err
    assert "spreadsheet rounded it" in done.err
    assert f"{file}:4" in done.err
    assert payloads(tube) == []
    skipping = run("put", "--csv", str(file), "--skip-bad")
    assert skipping.code == 1
    assert [each["number"] for each in payloads(tube)] == [USPS[0]]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["put"], "SLUG NUMBER"),
        (["put", "usps", "!!"], "not a tracking number"),
        (["put", "royalmail", "AB123456789GB"], "no courier"),
        (["put", "usps", *USPS, "--id", "x"], "--id"),
        (["put", "usps", USPS[0], "--id", "a b"], "`id`"),
        (["put", "usps", USPS[0], "--field", "postcode"], "NAME=VALUE"),
        (["put", "usps", USPS[0], "--field", "postal_cod=1"], "postal_code"),
        (["put", "usps", USPS[0], "--max-age", "-1"], "seconds"),
        (["put", "usps", USPS[0], "--ttr", "0"], "--ttr must be between 1 and 4294967295 seconds"),
        (["put", "usps", USPS[0], "--ttr", "4294967296"], "--ttr must be between 1 and 4294967295"),
        (["put", "usps", USPS[0], "--from-row", "0"], "'0' is not a number from 1 on"),
        (["put", "usps", USPS[0], "--max-age", "1e18"], "from 0 to 100000000000, without quotes"),
        (["put", "USPS", USPS[0]], "did you mean usps?"),
        (["show", "USPS", USPS[0]], "did you mean usps?"),
        (["put", "usps", ""], "number 1: '' is not a tracking number"),
        (["put", "--wait", "usps", USPS[0]], "after SLUG NUMBER"),
        (["put", "--csv", "/nonexistent.csv"], "No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(
    offline: Run, arguments: list[str], word: str
) -> None:
    done = offline(*arguments)
    assert done.code == 2
    assert word in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        # One quotation mark too many takes all rows below it into its cell.
        (f'slug,number\nusps,"{USPS[0]}\nusps,{USPS[1]}\n', ":2 is not CSV"),
        (f'slug,number\nusps,{USPS[0]}\nusps,"' + "usps,1\n" * 30_000, ":3 is not CSV"),
        ("a" * 200_000, ":1 is not CSV"),
        (f"slug,number,Number\nusps,{USPS[0]},\n", ":1 names the column number twice"),
        (f"slug,number\nusps,{USPS[0]},1,2\n", ":2 has 4 cells for 2 columns: write a cell that"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_row(
    offline: Run, tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(text)
    done = offline("put", "--csv", str(file))
    assert done.code == 2
    assert f"{file}{complaint}" in done.err
    assert "Traceback" not in done.err


def test_an_id_of_two_numbers_is_refused(offline: Run, tmp_path: Path) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(f"slug,number,id\nusps,{USPS[0]},a\nusps,{USPS[0]},a\nusps,{USPS[1]},a\n")
    done = offline("put", "--csv", str(file))
    assert done.code == 2
    assert done.err.count("belongs to another number") == 1


def test_several_servers_take_turns_and_one_that_is_away_is_passed(
    run: Run,
    beanstalkd: Server,
    tube: greenstalk.Client[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running(BEANSTALKD) as other:
        servers = [beanstalkd.url, "127.0.0.1:1", other.url]
        monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", json.dumps(servers))
        numbers = [f"94059036993001841250{index:02}" for index in range(12)]
        done = run("put", "usps", *numbers, "--json")
        assert done.code == 0
        took = [each["server"] for each in done.json]
        assert {took.count(beanstalkd.url), took.count(other.url)} <= set(range(3, 10))
        with greenstalk.Client(
            (other.host, other.port), encoding=None, watch="requests_flow"
        ) as there:
            found = [each["number"] for each in payloads(tube) + payloads(there)]
    assert sorted(found) == numbers


def test_no_server_at_all_is_told_with_how_far_it_came(offline: Run) -> None:
    done = offline("put", "usps", *USPS)
    assert done.code == 3
    assert "0 of 2 were put" in done.err
    assert "Traceback" not in done.err


class Demanding:
    """Couriers that need a postal code."""

    def resolve(self, text: str) -> tuple[Slug, str]:
        return Slug(text), ""

    def required_fields(self, _: Slug) -> tuple[str, ...]:
        return ("tracking_postal_code",)


def test_a_field_that_the_courier_needs_is_missed_before_anything_is_put() -> None:
    rows = [
        Row("first", {"slug": "x", "number": "ABCD"}),
        Row("second", {"slug": "x", "number": "ABCD", "tracking_postal_code": "8000"}),
    ]
    bad, good = jobs_of_rows(rows, Demanding())
    assert "--field postal_code=" in str(bad)
    assert isinstance(good, Sendable)
