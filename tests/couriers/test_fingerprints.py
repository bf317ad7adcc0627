"""A fingerprint tells whether credentials were changed, and nothing of what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from couriers.http.credentials import CourierSettings
from service.worker.wiring.lines import fingerprint_of, is_of
from tracking.request import Slug

SETTINGS = CourierSettings(
    Slug("usps"), "https://usps.example", "", credentials={"client_id": "me", "secret": "swordfish"}
)


def test_a_fingerprint_is_of_what_it_was_taken_of() -> None:
    assert is_of(fingerprint_of(SETTINGS), replace(SETTINGS, keep="-"))


@pytest.mark.parametrize(
    "changed",
    [
        replace(SETTINGS, credentials={"client_id": "me", "secret": "swordfish2"}),
        replace(SETTINGS, credentials={"client_id": "me"}),
        replace(SETTINGS, base_url="https://test.usps.example"),
        replace(SETTINGS, token_url="https://usps.example/login"),  # noqa: S106 - an address
    ],
)
def test_it_is_not_of_other_credentials_or_addresses(changed: CourierSettings) -> None:
    assert not is_of(fingerprint_of(SETTINGS), changed)


def test_it_names_no_credential_and_is_another_text_each_time() -> None:
    one, other = fingerprint_of(SETTINGS), fingerprint_of(SETTINGS)

    assert one != other
    assert "swordfish" not in one


@pytest.mark.parametrize("text", ["", ":", "nonsense"])
def test_what_is_no_fingerprint_is_of_nothing(text: str) -> None:
    assert not is_of(text, SETTINGS)
