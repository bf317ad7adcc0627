"""The first of DPD UK's two requests: a number leads to the code of its parcel."""

from __future__ import annotations

import json

import pytest

from couriers import dpd_uk
from tracking.errors import CourierError, UnreadableAnswer, WrongNumber

NUMBER = "15509990000007"
CODE = f"{NUMBER}*20417"
UNKNOWN = {"statusCode": 404, "error": "Not Found"}


def reference(*parcels: dict[str, str]) -> bytes:
    return json.dumps({"data": list(parcels)}).encode()


PARCEL = {"parcelNumber": "1550 9990 0000 07 K", "parcelCode": CODE}


def find(body: bytes, status: int = 200) -> str | None:
    return dpd_uk.parse_reference(status, {}, body, NUMBER)


def test_a_reference_gives_the_parcels_code() -> None:
    assert find(reference(PARCEL)) == CODE


def test_of_two_parcels_with_one_number_the_newer_one_counts() -> None:
    old = PARCEL | {"parcelCode": "old*1", "collectionDate": "2025-06-01"}
    new = PARCEL | {"parcelCode": "new*1", "collectionDate": "2026-01-05"}

    assert find(reference(old, new)) == find(reference(new, old)) == "new*1"


def test_only_the_feeds_own_sentence_means_unknown() -> None:
    message = "Your reference number could not be found"

    assert find(json.dumps({"error": UNKNOWN | {"message": message}}).encode(), 404) is None
    with pytest.raises(UnreadableAnswer, match="moved"):
        find(json.dumps({"error": UNKNOWN | {"message": "Not Found"}}).encode(), 404)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (reference(), WrongNumber),
        (reference(PARCEL | {"parcelNumber": "15500000000099"}), WrongNumber),
        (reference(PARCEL | {"parcelCode": "../../login"}), UnreadableAnswer),
        (reference({"parcelNumber": NUMBER}), UnreadableAnswer),
        (b"<html>", UnreadableAnswer),
    ],
)
def test_a_reference_that_leads_nowhere(body: bytes, error: type[CourierError]) -> None:
    with pytest.raises(error):
        find(body)
