"""Reading XML that somebody else wrote."""

from __future__ import annotations

import pytest

from couriers.reading.answer import read_xml
from tracking.errors import UnreadableAnswer

LAUGHS = "".join(
    f'<!ENTITY l{step} "{f"&l{step - 1};" * 10 if step else "ha" * 10}">' for step in range(10)
)


def test_names_are_local_and_values_are_trimmed() -> None:
    root = read_xml(b'<a xmlns="urn:x"><b> 1\n 2 </b><c:b xmlns:c="urn:y">3</c:b><d/></a>')

    assert root.text("b") == "1 2"
    assert [found.text("b") for found in root.each("a")] == ["1 2"]
    assert (root.text("d"), root.text("e")) == (None, None)
    assert root.first("e") is None


def test_an_empty_attribute_is_none() -> None:
    root = read_xml(b'<a b=" 1 \n 2 " c=""/>')

    assert (root.attribute("b"), root.attribute("c"), root.attribute("d")) == ("1 2", None, None)


def test_comments_and_instructions_are_no_text() -> None:
    assert read_xml(b"<a><b>1<!-- 2 --><?c 3?>4</b></a>").text("b") == "14"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<a>",
        b"\x00\xff",
        b"<a>\xff</a>",
        b"<!DOCTYPE html><html></html>",
        b'<!DOCTYPE a SYSTEM "file:///etc/hostname"><a/>',
        f"<!DOCTYPE a [{LAUGHS}]><a>&l9;</a>".encode(),
        f'<!DOCTYPE a [{LAUGHS}]><a b="&l9;"/>'.encode(),
        f'<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [{LAUGHS}]><a/>'.encode("utf-16"),
        b"<a>" * 5_000 + b"</a>" * 5_000,
    ],
)
def test_what_is_no_xml_or_more_than_xml_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        read_xml(body)
