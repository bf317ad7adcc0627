"""No secret survives in what is stored or shown, in whatever form it was echoed."""

from __future__ import annotations

import base64
import json
from html import escape
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriers.http.redaction import EXCERPT_BYTES, MASK, excerpt, redact

SECRET = 's3cr/t+v&l"ue='  # noqa: S105 - made up for this test
FORMS = [
    SECRET,
    quote(SECRET, safe=""),
    json.dumps(SECRET),
    SECRET.replace("/", "\\/"),
    base64.b64encode(SECRET.encode()).decode(),
    escape(SECRET),
    escape(SECRET, quote=False),
    escape(SECRET).replace("&#x27;", "&apos;"),
    escape(SECRET).replace("&#x27;", "&#39;"),
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_secret_is_blanked(form: str) -> None:
    assert "s3cr" not in redact(f"key {form} refused", [SECRET])
    assert base64.b64encode(SECRET.encode()).decode() not in redact(form, [SECRET])


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abc.def-ghi_123",
        "basic dXNlcjpwYXNzd29yZA==",
        '{"access_token": "abcdef123456"}',
        "client_secret=abcdef123456&x=1",
        "api-key: abcdef123456",
    ],
)
def test_what_looks_like_a_token_is_blanked_also_when_nobody_knows_it(text: str) -> None:
    plain = redact(text, [])

    assert MASK in plain
    for leaked in ("abc.def", "dXNlcjpw", "abcdef123456"):
        assert leaked not in plain


def test_words_of_everyday_are_left_alone() -> None:
    text = "The basic service is not available; password required."

    assert redact(text, ["", "a", "is"]) == text


def test_half_a_secret_at_the_edge_does_not_survive() -> None:
    body = b"x" * (EXCERPT_BYTES - 5) + SECRET.encode()

    assert excerpt(body, [SECRET]).endswith("x***")


PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=4)


@given(st.binary(max_size=3000), PRINTABLE, st.binary(max_size=3000))
def test_an_excerpt_is_always_short_clean_text(before: bytes, hidden: str, after: bytes) -> None:
    plain = excerpt(before + hidden.encode() + after, [hidden])

    assert len(plain.encode()) <= EXCERPT_BYTES
    assert "\0" not in plain
    assert hidden not in plain.replace(MASK, " ")
