"""What stands in the table of a request's fields goes the whole way, whatever its name is."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec

from limits.keys import Record, request_of, write_request
from service.console.parser import parser
from service.console.rows import read_rows
from service.operator.put import MEMBERS, Sendable, jobs_of_rows
from service.worker.results.document import begun
from service.worker.tubes.envelope import decode_request
from service.worker.upkeep.recheck import check_of
from tracking.line import line_of
from tracking.request import FIELDS, FIELDS_PREFIX, Slug

INTERFACE = (Path(__file__).parents[2] / "docs" / "interface.md").read_text("utf-8")
SAID = {name: f"{at} of {len(FIELDS)}" for at, name in enumerate(FIELDS)}
COLUMNS_BEFORE = {*MEMBERS, "account", "alone", "resend_of"} - set(FIELDS)
NOW = datetime(2026, 2, 3, tzinfo=UTC)


def resolve(text: str) -> tuple[Slug, str]:
    return Slug(text), ""


def test_every_field_goes_from_the_command_line_through_redis_to_the_document_and_back() -> None:
    options = [f"--field={name.removeprefix(FIELDS_PREFIX)}={text}" for name, text in SAID.items()]
    couriers = SimpleNamespace(resolve=resolve, required_fields=lambda _: ())

    asked = parser().parse_args(["put", "usps", "N0001", *options])
    (put,) = jobs_of_rows(read_rows(asked), couriers)
    assert isinstance(put, Sendable)
    asked = decode_request(put.body, resolve)
    written = msgspec.json.decode(write_request(asked, "a job"))
    record = msgspec.convert({"n": asked.number, "since": 0, "fields": written["fields"]}, Record)
    called, _ = request_of(line_of(asked), record)
    document = begun(called, NOW, {}) | {"next_check_at": NOW}
    again = check_of(document, NOW)

    assert asked.fields == called.fields == document["fields"] == again.fields == SAID


def test_the_interface_describes_exactly_these_fields() -> None:
    section = INTERFACE.split("## 2. ")[0]
    members = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", section, re.MULTILINE))

    listed = {name: said for name, said in members.items() if name not in COLUMNS_BEFORE}
    assert listed == dict(FIELDS)
