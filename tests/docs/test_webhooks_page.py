"""The examples of bodies in docs/webhooks.md have the members that are sent, and no others."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

from service.worker.deliveries.attempt import DELAYS_SECONDS, Failure
from service.worker.deliveries.body import operation_data, parcel_data
from service.worker.deliveries.delivery import DeliveryState
from service.worker.results.change import TOLD, WATCHED, EventName, Mark
from tracking.request import MAIN, Number, Slug

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text("utf-8")
AT = dt.datetime(2026, 11, 27, 12, tzinfo=dt.UTC)


def examples() -> dict[str, dict[str, Any]]:
    """The bodies of the page, by their events."""
    bodies = [json.loads(each) for each in re.findall(r"```json\n(.+?)```", PAGE, re.DOTALL)]
    return {each["type"]: each for each in bodies}


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_.]+)`", text))


def test_a_parcel_s_example_has_members_that_its_events_have() -> None:
    names = EventName.PARCEL_CHANGED, EventName.PARCEL_DELIVERED
    after = dict.fromkeys(TOLD)
    mark = Mark("a" * 32, MAIN, Slug("usps"), Number("A1"), names, WATCHED, None, after, AT)
    data = examples()["parcel.changed"]["data"]

    assert set(data) <= set(parcel_data(mark))
    assert set(data["before"]) == set(WATCHED)
    assert set(data["changed"]) <= set(WATCHED)


def test_an_operation_s_example_has_the_members_that_are_sent() -> None:
    document = {"id": "a", "slug": "usps", "number": "A1", "state": "SUCCESS", "finished_at": AT}

    assert set(examples()["operation.ended"]["data"]) == set(operation_data(document))


def test_every_event_stands_in_the_table() -> None:
    assert [row[0].strip("`") for row in rows("Events")] == [*EventName]


def test_every_state_of_a_delivery_stands_in_the_table() -> None:
    found = [row[0].strip("`") for row in rows("Look at deliveries, and send them again")]

    assert found[: len(DeliveryState)] == [*DeliveryState]


def test_the_table_of_retries_says_when_attempts_are_made() -> None:
    units = {"s": 1, "min": 60, "h": 3_600}

    def seconds(text: str) -> int:
        pairs = re.findall(r"(\d+) (s|min|h)\b", text)
        return sum(int(count) * units[unit] for count, unit in pairs)

    found = rows("Retries")
    assert [seconds(row[1]) for row in found[1:]] == list(DELAYS_SECONDS)
    sums = [sum(DELAYS_SECONDS[:count]) for count in range(1, len(found))]
    # The first seconds are left out of what takes hours.
    assert all(
        abs(seconds(row[2]) - due) <= 5 + 60 * (due > 300)
        for row, due in zip(found[1:], sums, strict=True)
    )


def test_every_failure_of_an_attempt_is_named() -> None:
    [sentence] = re.findall(r"Why an attempt failed is one of (.+?)\.\n", PAGE, re.DOTALL)

    assert words(sentence) == set(Failure)
