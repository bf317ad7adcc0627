"""Senders' signatures by examples of their documentation and libraries, and what they refuse."""

from __future__ import annotations

import pytest

from devstack.foreign import SECRET, foreign_requests
from devstack.senders import TOLERANCE_SECONDS, VERIFIES, Message, github, shopify, stripe, twilio

NOW = 1_795_780_800
URL = "https://mycompany.com/myapp.php?foo=1&bar=2"


def test_github_signs_as_its_documentation_has_it() -> None:
    assert github(b"It's a Secret to Everybody", b"Hello, World!") == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


CALL = (
    b"CallSid=CA1234567890ABCDE&To=%2B18005551212&Digits=1234"
    b"&Caller=%2B14158675309&From=%2B14158675309"
)


@pytest.mark.parametrize(
    ("form", "signature"),
    [
        (
            CALL,
            "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
        ),
        (
            b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
            "IK+Dwps556ElfBT0I3Rgjkr1wJU=",
        ),
    ],
)
def test_twilio_signs_as_its_documentation_and_its_libraries_have_it(
    form: bytes, signature: str
) -> None:
    assert twilio(b"12345", URL, form) == signature


def arrived(**headers: str) -> Message:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Message("POST", "/", named, b"{}")


def test_a_body_is_signed_in_base64_by_shopify_and_with_its_time_by_stripe() -> None:
    genuine = arrived(
        x_shopify_hmac_sha256=shopify(SECRET, b"{}"), stripe_signature=stripe(SECRET, b"{}", NOW)
    )

    assert VERIFIES["shopify"](SECRET, genuine, NOW)
    assert VERIFIES["stripe"](SECRET, genuine, NOW + TOLERANCE_SECONDS)
    for system in VERIFIES:
        assert not VERIFIES[system](b"another", genuine, NOW)


@pytest.mark.parametrize(
    "given", ["", "t=,v1=", f"t={NOW}", f"t={NOW},v1=00", f"t={NOW + 1},v1=SIGNATURE"]
)
def test_a_signature_of_stripe_is_refused_that_is_broken_or_of_another_time(given: str) -> None:
    signature = stripe(SECRET, b"{}", NOW).rpartition("=")[2]
    late = NOW + TOLERANCE_SECONDS + 1

    assert not VERIFIES["stripe"](
        SECRET, arrived(stripe_signature=given.replace("SIGNATURE", signature)), NOW
    )
    assert not VERIFIES["stripe"](
        SECRET, arrived(stripe_signature=stripe(SECRET, b"{}", NOW)), late
    )


def test_foreign_requests_are_the_same_for_the_same_seed_and_of_every_kind() -> None:
    drawn = list(foreign_requests(1, 200, "https://in.example/label", NOW))

    assert drawn == list(foreign_requests(1, 200, "https://in.example/label", NOW))
    assert drawn != list(foreign_requests(2, 200, "https://in.example/label", NOW))
    assert {each.system for each in drawn} > VERIFIES.keys()
    assert {len(each.message.body) for each in drawn} > {0, 1 << 20}
