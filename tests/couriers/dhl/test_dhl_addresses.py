"""DHL Express has two addresses: its credentials choose between them."""

from __future__ import annotations

import pytest

from couriers.http.credentials import CourierSettings
from couriers.registry import Registry, wanted_credentials
from tracking.request import Slug

KEYS = {"username": "shop", "password": "secret"}


@pytest.mark.parametrize(
    ("keys", "base_url", "wanted"),
    [
        ({}, "https://api-eu.dhl.com", ("api_key",)),
        ({"api_key": "k"}, "https://api-eu.dhl.com", ("api_key",)),
        (KEYS, "https://express.api.dhl.com/mydhlapi", ("username", "password")),
        ({"username": "shop"}, "https://express.api.dhl.com/mydhlapi", ("username", "password")),
    ],
)
def test_the_credentials_choose_the_address_too(
    keys: dict[str, str], base_url: str, wanted: tuple[str, ...]
) -> None:
    section = CourierSettings(Slug("dhl"), credentials=keys)
    registry = Registry([section])
    given = CourierSettings(Slug("dhl"), base_url="http://127.0.0.1:1", credentials=keys)

    assert registry.settings(Slug("dhl")).base_url == base_url
    assert Registry([given]).settings(Slug("dhl")).base_url == "http://127.0.0.1:1"
    assert wanted_credentials(registry.courier(Slug("dhl")), keys) == wanted
