"""A status that words give is right, as often as is promised; an end nearly always."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from parser_subject import NUMBER
from phrase_precision import Wording, ends, is_for_tuning, of_all, of_ends, table, wordings

from couriers import australia_post, dpd_uk, hong_kong_post
from couriers.reading.statuses import recognise_end
from tracking.checkpoint import Tag

PROMISED = 0.97
AT = "2026-01-05T08:15:00"


def test_words_that_end_a_journey_are_right_in_the_half_that_nothing_was_tuned_on() -> None:
    print(table())  # noqa: T201 - the figures that are asserted
    measured = of_ends(each for each in wordings() if not is_for_tuning(each))

    assert measured.said >= 15, "too few to measure anything"
    assert measured.precision >= PROMISED
    page = " ".join((Path(__file__).parents[2] / "docs/couriers.md").read_text().split())
    written = (
        f"{measured.right} of {measured.said} ends were right, of {measured.due} that were due"
    )
    assert written in page


def test_the_halves_are_about_as_large_and_both_hold_ends() -> None:
    halves = {True: 0, False: 0}
    for each in wordings():
        halves[is_for_tuning(each)] += ends(each.subtag)
    tuned = sum(map(is_for_tuning, wordings()))

    assert abs(2 * tuned - len(wordings())) < 0.2 * len(wordings())
    assert min(halves.values()) >= 10


def test_wrong_phrases_would_be_noticed() -> None:
    wrong = [Wording("delivered", "AvailableForPickup_001"), Wording("delivered", "Delivered_001")]

    assert of_ends(wrong).precision == 0.5
    assert of_ends([Wording("lost at sea", "Exception_013")]) == (0, 0, 1)
    assert of_all([Wording("out for delivery", "OutForDelivery_001")]).precision == 1


@pytest.mark.parametrize(
    ("sentence", "subtag"),
    [
        ("Your parcel has been delivered to your neighbour", "Delivered_005"),
        ("The item was delivered to the addressee.", "Delivered_001"),
        ("Delivered, Front Door/Porch", "Delivered_001"),
        ("Delivered by a drone", None),
        ("Package delivered at back door", "Delivered_001"),
        ("Delivered and signed for by: J DOE", "Delivered_003"),
        ("Collected by the addressee at the post office", "Delivered_002"),
        ("Item successfully returned to sender", "Exception_011"),
        ("Item returned to sender", None),
        ("Delivered to a parcel shop", None),
        ("Delivered to the locker", None),
        ("Delivered to the neighbour's parcel shop", None),
        ("Delivered to agent for final delivery", None),
        ("A message was delivered to the recipient", None),
        ("To be delivered to the addressee", None),
        ("Your parcel will be delivered", None),
        ("Not delivered", None),
        ("Delivered? Tell us", None),
    ],
)
def test_only_a_sentence_known_to_its_last_word_ends_a_journey(
    sentence: str, subtag: str | None
) -> None:
    told = recognise_end(sentence)

    assert (told.subtag if told else None) == subtag


def test_words_end_a_journey_where_a_courier_gives_no_codes() -> None:
    said = "The item was delivered to the addressee."
    event = {"eventDateTime": AT, "status": said}
    hong_kong = {"items": [{"itemNo": NUMBER, "events": [event]}]}
    dpd = {"data": [{"eventDate": AT, "eventText": said}]}
    article = {"article_id": NUMBER, "events": [{"date": AT, "description": said}]}
    australia = {"tracking_results": [{"tracking_id": NUMBER, "trackable_items": [article]}]}

    for module, answer in ((hong_kong_post, hong_kong), (dpd_uk, dpd), (australia_post, australia)):
        told = module.parse(200, {}, json.dumps(answer).encode(), NUMBER)
        assert (told.tag, told.delivered_at) == (Tag.DELIVERED, AT)


def test_words_never_deliver_what_a_code_says_is_not() -> None:
    said = "The item was delivered to the addressee."
    dpd = {"data": [{"eventDate": AT, "eventText": said, "eventCode": "015"}]}
    unknown = {"data": [{"eventDate": AT, "eventText": said, "eventCode": "777"}]}
    article = {
        "article_id": NUMBER,
        "status": "In transit",
        "events": [{"date": AT, "description": said}],
    }
    australia = {"tracking_results": [{"tracking_id": NUMBER, "trackable_items": [article]}]}

    for module, answer in ((dpd_uk, dpd), (dpd_uk, unknown), (australia_post, australia)):
        told = module.parse(200, {}, json.dumps(answer).encode(), NUMBER)
        assert Tag.DELIVERED not in {told.tag, *(each.tag for each in told.checkpoints)}
