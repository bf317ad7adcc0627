"""How a foreign request is written again: what stays, what goes, and what is added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from receiving import FOREIGN
from yarl import URL

from service.worker.deliveries.relayed import END_AT_A_HOP, head_of, headers_about, target_below

SHOP = URL("https://shop.example/hooks")


def lines(added: dict[str, str] | None = None, **members: Any) -> list[str]:
    """The lines of the head of a request with these members."""
    head = head_of(replace(FOREIGN, **members), SHOP, added or {})
    assert head.endswith(b"\r\n\r\n")
    return head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")


@pytest.mark.parametrize(
    ("destination", "target", "sent"),
    [
        ("https://shop.example/hooks", "/a%2Fb?x=%C3%A9", "/hooks/a%2Fb?x=%C3%A9"),
        ("https://shop.example/hooks", "/", "/hooks"),
        ("https://shop.example/hooks", "/?x=1", "/hooks?x=1"),
        ("https://shop.example/hooks/", "/", "/hooks/"),
        ("https://shop.example/hooks/", "/a", "/hooks/a"),
        ("https://shop.example", "/", "/"),
        ("https://shop.example/", "//a//", "//a//"),
        ("https://shop.example/hooks", "//a", "/hooks//a"),
        ("https://shop.example/hooks", "/a?", "/hooks/a?"),
        ("https://shop.example/hooks?shop=1", "/a", "/hooks/a?shop=1"),
        ("https://shop.example/hooks?shop=1", "/a?", "/hooks/a?shop=1"),
        ("https://shop.example/hooks?shop=1", "/a?x=?&x", "/hooks/a?shop=1&x=?&x"),
        ("https://shop.example/caf%C3%A9", "/\xe9", "/caf%C3%A9/\xe9"),
    ],
)
def test_a_target_stands_behind_the_path_of_the_destination(
    destination: str, target: str, sent: str
) -> None:
    assert target_below(URL(destination), target) == sent


def test_headers_keep_their_order_their_repetition_their_case_and_their_bytes() -> None:
    headers = (("X-B", "1"), ("x-a", "caf\xe9"), ("X-A", ""), ("X-B", "1"), ("x_b", "\xc3\xa9"))

    assert lines(headers=headers, body=b"") == [
        "POST /hooks HTTP/1.1",
        "Host: shop.example",
        "X-B: 1",
        "x-a: caf\xe9",
        "X-A: ",
        "X-B: 1",
        "x_b: \xc3\xa9",
        "Content-Length: 0",
    ]


def test_what_ends_at_a_hop_is_left_out_and_what_the_header_connection_names() -> None:
    gone = {name.title(): "1" for name in END_AT_A_HOP} | {"HOST": "inside", "x-named": "1"}
    gone |= {"Connection": "close, X-Named", "connection": "x-too", "X-Too": "1", "Expect": "1"}

    assert lines(headers=(*gone.items(), ("X-Kept", "1"))) == [
        "POST /hooks HTTP/1.1",
        "Host: shop.example",
        "X-Kept: 1",
        f"Content-Length: {len(FOREIGN.body)}",
    ]


@pytest.mark.parametrize("name", ["Relay-Signature", "relay_signature", "RELAY-SIGNATURE"])
def test_nobody_forges_a_header_that_is_added(name: str) -> None:
    headers = ((name, "forged"), ("X-Relay-Signature", "1"))

    assert lines({"relay-signature": "ours"}, headers=headers)[2:] == [
        "X-Relay-Signature: 1",
        f"Content-Length: {len(FOREIGN.body)}",
        "relay-signature: ours",
    ]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("POST", b"ab", "2"),
        ("POST", b"", "0"),
        ("GET", b"ab", "2"),
        ("GET", b"", None),
        ("HEAD", b"", None),
        ("PURGE", b"", "0"),
    ],
)
def test_the_length_is_that_of_the_body_whatever_came(
    method: str, body: bytes, length: str | None
) -> None:
    headers = (("Content-Length", "99"), ("content-length", "1"), ("Content_Length", "5"))
    head = lines(method=method, body=body, headers=headers)

    assert head[2:] == ([] if length is None else [f"Content-Length: {length}"])


@pytest.mark.parametrize(
    "members",
    [
        {"method": "GET / HTTP/1.1\r\nX: 1\r\n"},
        {"method": ""},
        {"target": "/a b"},
        {"target": "/\r\nX:1"},
        {"target": "a"},
        {"headers": (("X", "1\r\nY: 2"),)},
        {"headers": (("X", "1\n"),)},
        {"headers": (("X", "1\x00"),)},
        {"headers": (("X: 1\r\nY", "2"),)},
        {"headers": (("", "2"),)},
        {"headers": (("X ", "2"),)},
    ],
)
def test_a_head_that_would_be_another_request_is_not_written(members: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no request can have"):
        lines(**members)


def test_an_attempt_says_which_one_it_is_of_what_and_signs_that() -> None:
    signed = {"webhook-id": "ID", "webhook-timestamp": "1", "webhook-signature": "v1,A v1,B"}

    assert headers_about(FOREIGN, signed, 3) == {
        "relay-id": "ID",
        "relay-attempt": "3",
        "relay-received-at": "2026-11-26T03:00:00.250Z",
        "relay-original-url": "https://shop-hook-random.in.example/",
        "relay-timestamp": "1",
        "relay-signature": "v1,A v1,B",
    }
