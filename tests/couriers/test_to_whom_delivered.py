"""A courier's code for "delivered" beside a sentence that says to whom: that decides."""

from __future__ import annotations

import pytest
from parser_subject import NUMBER, Subject, as_json
from parser_subjects import SUBJECTS

from couriers import json_feed
from couriers.reading.statuses import (
    DELIVERED,
    FOR_PICKUP,
    RETURNED,
    SIGNED_FOR,
    Status,
    recognise,
    unless_denied,
)
from couriers.registry import COURIERS
from tracking.checkpoint import Tag, Tracking
from tracking.request import Slug

BACK = [
    "Delivered back to the sender",
    "Delivered to shipper",
    "Delivered to original shipper.",
    "Your parcel was delivered back to sender",
    "Delivered, To Original Sender",
]
RECEIVED = [
    "Delivered to the recipient at the service point",
    "Delivered to the addressee at the parcel shop",
    "The item was delivered at the service point to the recipient",
]
CODED = [
    (subject, code)
    for subject in SUBJECTS
    for code in subject.codes
    # The feed's codes are tags of our own: a feed that writes one means it.
    if subject.delivered(("", "", code)) and subject.module is not json_feed
    if subject.in_english
]
EACH = pytest.mark.parametrize(
    ("subject", "code"), CODED, ids=[f"{one.module.NAME} {code}" for one, code in CODED]
)


def read(subject: Subject, code: str, sentence: str) -> Tracking:
    events = [("2026-01-06T08:15:00", sentence, code), ("2026-01-05T08:15:00", "", "")]
    body = subject.encode(subject.answer(events))
    told = subject.module.parse(200, {}, body, NUMBER)
    assert isinstance(told, Tracking)
    return told


@EACH
@pytest.mark.parametrize("sentence", BACK)
def test_a_delivery_to_the_sender_is_a_return(subject: Subject, code: str, sentence: str) -> None:
    told = read(subject, code, sentence)

    assert told.checkpoints[-1].subtag == "Exception_011"
    assert (told.delivered, told.delivered_at, told.signed_by) == (False, None, None)


@EACH
@pytest.mark.parametrize("sentence", RECEIVED)
def test_a_delivery_to_the_recipient_is_one_wherever_it_was(
    subject: Subject, code: str, sentence: str
) -> None:
    assert read(subject, code, sentence).checkpoints[-1].tag is Tag.DELIVERED


@pytest.mark.parametrize(
    ("sentence", "status"),
    [
        ("Delivered to a parcel shop", FOR_PICKUP),
        ("Delivered to your locker, a text message was sent to the recipient", FOR_PICKUP),
        ("Delivered back door", SIGNED_FOR),
        ("Delivered, Front Door/Porch", SIGNED_FOR),
        ("Delivered according to the sender's wish", SIGNED_FOR),
        ("Delivered to a neighbour. A card was sent to the sender", SIGNED_FOR),
        ("Delivered to shipper", RETURNED),
    ],
)
def test_other_sentences_are_read_as_before(sentence: str, status: Status) -> None:
    assert unless_denied(SIGNED_FOR, sentence) == status


@pytest.mark.parametrize("sentence", [*BACK, *RECEIVED])
def test_words_alone_end_nothing(sentence: str) -> None:
    told = recognise(sentence)

    assert told not in (DELIVERED, RETURNED, FOR_PICKUP)


AT, BACK_AGAIN = "2026-01-06T08:15:00", "Delivered to original shipper"
OVERALL = {
    "dhl": {
        "shipments": [
            {
                "id": NUMBER,
                "status": {"timestamp": AT, "statusCode": "delivered", "description": "Delivered"},
                "events": [{"timestamp": AT, "statusCode": "delivered", "description": BACK_AGAIN}],
            }
        ]
    },
    "gls": {
        "parcels": [
            {
                "unitno": NUMBER,
                "status": "DELIVERED",
                "events": [{"eventDateTime": AT, "code": "DELIVD.POD", "description": BACK_AGAIN}],
            }
        ]
    },
    "ups": {
        "trackResponse": {
            "shipment": [
                {
                    "package": [
                        {
                            "trackingNumber": NUMBER,
                            "currentStatus": {"code": "011", "description": "Delivered"},
                            "activity": [
                                {
                                    "date": "20260106",
                                    "time": "081500",
                                    "status": {"statusCode": "011", "description": BACK_AGAIN},
                                }
                            ],
                        }
                    ]
                }
            ]
        }
    },
    "fedex": {
        "output": {
            "completeTrackResults": [
                {
                    "trackingNumber": NUMBER,
                    "trackResults": [
                        {
                            "latestStatusDetail": {"code": "DL", "description": "Delivered"},
                            "scanEvents": [
                                {"date": AT, "eventType": "DL", "eventDescription": BACK_AGAIN}
                            ],
                        }
                    ],
                }
            ]
        }
    },
    "postnord": {
        "TrackingInformationResponse": {
            "shipments": [
                {
                    "items": [
                        {
                            "itemId": NUMBER,
                            "status": "DELIVERED",
                            "events": [
                                {
                                    "eventTime": AT,
                                    "status": "DELIVERED",
                                    "eventDescription": BACK_AGAIN,
                                }
                            ],
                        }
                    ]
                }
            ]
        }
    },
    "australia-post": {
        "tracking_results": [
            {
                "tracking_id": NUMBER,
                "trackable_items": [
                    {
                        "article_id": NUMBER,
                        "status": "Delivered",
                        "events": [{"date": AT, "description": BACK_AGAIN}],
                    }
                ],
            }
        ]
    },
}
"""The parcel's own status says "delivered", and the newest event that its sender has it."""


@pytest.mark.parametrize("slug", OVERALL)
def test_a_parcel_is_returned_where_only_its_newest_event_says_so(slug: str) -> None:
    told = COURIERS[Slug(slug)].parse(200, {}, as_json(OVERALL[slug]), NUMBER)

    assert (told.tag, told.subtag, told.active) == (Tag.EXCEPTION, "Exception_011", False)
    assert told.delivered_at is None
