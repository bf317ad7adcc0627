"""Sentences are the last resort, and never mean that a parcel was delivered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.reading.countries import ALIASES, country
from couriers.reading.statuses import recognise, status_from_words
from tracking.checkpoint import Tag


@pytest.mark.parametrize(
    ("sentence", "tag"),
    [
        ("Your parcel has been delivered to the pickup shop", Tag.AVAILABLE_FOR_PICKUP),
        ("Delivered to a parcel shop", Tag.AVAILABLE_FOR_PICKUP),
        ("Your parcel is at the local depot awaiting collection", Tag.AVAILABLE_FOR_PICKUP),
        ("We've received your order details, but have not yet received it", Tag.INFO_RECEIVED),
        ("Pre-Shipment Info Sent to USPS", Tag.INFO_RECEIVED),
        ("The item could not be delivered", Tag.ATTEMPT_FAIL),
        ("Parcel not delivered", Tag.ATTEMPT_FAIL),
        ("Delivery incomplete", Tag.ATTEMPT_FAIL),
        ("Nobody was at home", Tag.ATTEMPT_FAIL),
        ("Delivered back: returned to sender", Tag.EXCEPTION),
        ("Your delivery has been cancelled", Tag.EXCEPTION),
        ("Text message delivered", Tag.IN_TRANSIT),
        ("The item left Hong Kong for its destination on 29-Jul-2014", Tag.IN_TRANSIT),
        ("Your parcel is on the vehicle for delivery", Tag.OUT_FOR_DELIVERY),
        ("Out for Delivery", Tag.OUT_FOR_DELIVERY),
        ("Delivered", Tag.IN_TRANSIT),
        ("It will be returned to the sender if not collected in 10 days", Tag.AVAILABLE_FOR_PICKUP),
        ("The item was returned to the sender", Tag.EXCEPTION),
        ("Available for Redelivery or Pickup", Tag.AVAILABLE_FOR_PICKUP),
        ("Notice Left (No Authorized Recipient Available)", Tag.ATTEMPT_FAIL),
        ("Inbound Out of Customs", Tag.IN_TRANSIT),
        ("With delivery courier", Tag.OUT_FOR_DELIVERY),
        ("Shipment on hold", Tag.EXCEPTION),
        ("The package will be delivered to the Access Point of your choice", Tag.IN_TRANSIT),
        ("Delivery attempted but no response at Consignee address", Tag.ATTEMPT_FAIL),
        ("Landed in Canada", Tag.IN_TRANSIT),
        ("Delivery location closed", Tag.ATTEMPT_FAIL),
        ("Held at Post Office, At Customer Request", Tag.AVAILABLE_FOR_PICKUP),
        ("Delivery Exception, Animal Interference", Tag.ATTEMPT_FAIL),
        ("Notice Left (Receptacle Full/Item Oversized)", Tag.ATTEMPT_FAIL),
        ("No Secure Location Available", Tag.ATTEMPT_FAIL),
    ],
)
def test_what_sentences_mean(sentence: str, tag: Tag) -> None:
    assert status_from_words(sentence).tag is tag


def test_a_sentence_that_no_rule_knows_is_not_recognised() -> None:
    assert recognise("Sjáumst síðar") is None


WORDS = ["delivered", "not", "to", "your", "shop", "has", "been", "parcel", "signed", "by"]


@given(st.lists(st.sampled_from(WORDS)))
def test_no_words_ever_mean_delivered(words: list[str]) -> None:
    assert status_from_words(" ".join(words)).tag is not Tag.DELIVERED


@pytest.mark.parametrize(
    ("text", "name", "iso3"),
    [
        ("US", "United States", "USA"),
        ("GBR", "United Kingdom", "GBR"),
        ("UNITED KINGDOM", "United Kingdom", "GBR"),
        ("Great Britain", "United Kingdom", "GBR"),
        ("Hong Kong", "Hong Kong", "HKG"),
        ("Kosovo", "Kosovo", "XKX"),
        ("Hub 3 - Birmingham", "Hub 3 - Birmingham", None),
    ],
)
def test_countries_are_known_by_code_by_name_and_by_what_couriers_call_them(
    text: str, name: str, iso3: str | None
) -> None:
    found = country(text)

    assert found is not None
    assert (found.name, found.iso3) == (name, iso3)


@pytest.mark.parametrize("text", ["", " ", None])
def test_nothing_is_no_country(text: str | None) -> None:
    assert country(text) is None


@pytest.mark.parametrize(("alias", "iso3"), ALIASES.items())
def test_every_alias_leads_to_its_country(alias: str, iso3: str) -> None:
    found = country(alias)

    assert found is not None
    assert found.iso3 == iso3
