"""Foreign bodies as pages show them, and the command that sends a request once more."""

from __future__ import annotations

import shlex

import pytest

from service.web.bodies import (
    CURL_MOST,
    DUMP_MOST,
    FORM,
    TEXT_MOST,
    Form,
    Sent,
    curl,
    shown_body,
    visible,
)


def test_json_is_written_a_member_a_line_and_each_token_stays_as_it_came() -> None:
    body = b'{"a":[1.0e5,{}, [] ,{"b":"x\\"{y"}],"n":12345678901234567890.10,"n":1}'

    shown = shown_body(body, "text/html")

    assert shown.form is Form.JSON
    assert shown.text.splitlines() == [
        "{",
        '  "a": [',
        "    1.0e5,",
        "    {},",
        "    [],",
        "    {",
        '      "b": "x\\"{y"',
        "    }",
        "  ],",
        '  "n": 12345678901234567890.10,',
        '  "n": 1',
        "}",
    ]


def test_a_form_is_a_table_and_what_only_says_that_it_is_one_is_text() -> None:
    kind = f"{FORM}; charset=utf-8"

    assert shown_body(b"a=1&b=%3Cb%3E&a=&c", kind).fields == [
        ("a", "1"),
        ("b", "<b>"),
        ("a", ""),
        ("c", ""),
    ]
    assert shown_body(b"&", kind).form is Form.TEXT
    assert shown_body(b"a=1").form is Form.TEXT


@pytest.mark.parametrize("body", [b"\x89PNG\r\n", b"a\x00b", b"\x1b[31mred", "ü".encode("latin-1")])
def test_what_is_no_text_is_a_hex_dump(body: bytes) -> None:
    shown = shown_body(body)

    assert shown.form is Form.HEX
    assert bytes.fromhex(shown.text[8:55]) == body


def test_what_nobody_sees_or_what_turns_others_around_is_an_escape() -> None:
    assert visible("a\u202eb\r\nc\rd\u200be\x85") == "a\\u202eb\nc\\rd\\u200be\\x85"
    assert shown_body("{\u2066".encode()).text == "{\\u2066"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"[" * (1 << 20), ""),
        (b"[" * 900 + b"0," * 400_000 + b"0" + b"]" * 900, ""),
        (b'{"a":"' + b"x" * 1_000_000 + b'"}', ""),
        (b"{" + b'"\\' * 500_000, ""),
        (b"\x01" * (1 << 20), ""),
        (b"a=1&" * 250_000, FORM),
        (b"a=" + b"x" * 1_000_000, FORM),
        (b"<" * (1 << 20), ""),
    ],
    ids=["nested", "wide", "long", "escapes", "control", "fields", "field", "text"],
)
def test_a_long_body_is_cut(body: bytes, kind: str) -> None:
    shown = shown_body(body, kind)

    assert shown.is_cut
    assert shown.size == len(body)
    long = len(shown.text) + sum(len(name) + len(value) for name, value in shown.fields)
    assert long <= max(2 * TEXT_MOST, 5 * DUMP_MOST)


def test_a_command_sends_all_that_was_sent_and_nothing_of_its_own() -> None:
    sent = Sent(
        "PUT",
        "https://x.in.example/o?a=[1]",
        [("Host", "x"), ("Content-Length", "9"), ("X-Empty", ""), ("X-B", "it's $HOME `id`")],
        b"@/etc/passwd",
        "request-A.bin",
    )

    assert shlex.split(curl(sent)) == [
        *("curl", "--globoff", "--http1.1", "--request", "PUT"),
        *("--header", "X-Empty;", "--header", "X-B: it's $HOME `id`"),
        *("--header", "accept:", "--header", "user-agent:", "--header", "content-type:"),
        *("--data-raw", "@/etc/passwd", "--url", "https://x.in.example/o?a=[1]"),
    ]


@pytest.mark.parametrize("body", [b"\x00", b"x" * (CURL_MOST + 1)], ids=["binary", "long"])
def test_a_body_that_cannot_be_quoted_is_read_from_its_file(body: bytes) -> None:
    words = shlex.split(curl(Sent("HEAD", "https://x.example/", [], body, "request-A.bin")))

    assert words[3] == "--head"
    assert words[words.index("--data-binary") + 1] == "@request-A.bin"
