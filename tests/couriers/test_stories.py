"""A checkpoint in the middle of a story counts as much as the newest.

`stories.tsv` holds stories as recorded answers tell them, code and words, oldest first, and what
each event means. Couriers' answers are written around them here; no recorded answer is kept.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from parser_subjects import SUBJECTS, Subject

from tracking.checkpoint import Checkpoint

Told = tuple[str, str, str]


def stories() -> dict[str, list[Told]]:
    path = Path(__file__).parent / "stories.tsv"
    found: dict[str, list[Told]] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            found.setdefault(row["story"], []).append((row["code"], row["words"], row["subtag"]))
    return found


STORIES = stories()


def subject_of(story: str) -> Subject:
    name = f"couriers.{story.partition(' ')[0].replace('-', '_')}"
    return next(each for each in SUBJECTS if each.module.__name__ == name)


def read(subject: Subject, listed: list[Told], *, newest_first: bool) -> tuple[Checkpoint, ...]:
    days = enumerate(listed, 1)
    events = [(f"2026-01-{day:02}T08:15:00", words, code) for day, (code, words, _) in days]
    answer = subject.answer(events[::-1] if newest_first else events)
    told = subject.module.parse(200, {}, subject.encode(answer), "15509990000007")
    assert told.unknown_codes == ()
    return told.checkpoints


@pytest.mark.parametrize("story", STORIES)
def test_every_checkpoint_of_a_recorded_story_means_what_it_says(story: str) -> None:
    listed = STORIES[story]
    meant = [(code, subtag) for code, _, subtag in listed]

    for newest_first in (True, False):
        points = read(subject_of(story), listed, newest_first=newest_first)
        assert [(point.raw_tag or "", point.subtag) for point in points] == meant


@pytest.mark.parametrize("story", STORIES)
def test_a_story_that_stops_anywhere_stands_where_it_stopped(story: str) -> None:
    listed = STORIES[story]
    subject = subject_of(story)

    for length in range(1, len(listed) + 1):
        points = read(subject, listed[:length], newest_first=False)
        assert [point.subtag for point in points] == [each[2] for each in listed[:length]]


def test_the_stories_are_of_most_couriers() -> None:
    assert len({story.split()[0] for story in STORIES}) >= 15
