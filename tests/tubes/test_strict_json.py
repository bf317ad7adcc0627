"""JSON is read the same by the short way as by the long one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.tubes.strict_json import read_strictly

REFUSED = object()
KEYS = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"a:b"', '""', '"\\ud83d\\ude00"', '"\\ud800"'])
TEXTS = KEYS | st.sampled_from(['"\\":"', '":::"', '"\x7f"', '"\t"', '"\\u0000"'])
BLANKS = st.sampled_from(["", "", " ", "\n\t\r"])
OTHERS = st.sampled_from(["null", "1", "NaN", "[]", '["a"]', "9" * 30, "1e999"])


def twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("twins")
    return dict(pairs)


def refuse(name: str) -> None:
    raise ValueError(name)


def read_slowly(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), object_pairs_hook=twins, parse_constant=refuse)
    except ValueError:
        return REFUSED


def read(body: bytes) -> Any:
    try:
        return read_strictly(body)
    except ValueError:
        return REFUSED


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.builds("{1}{0}{1}:{1}{2}".format, KEYS, BLANKS, values)
    return st.lists(pair, max_size=4).map(lambda pairs: f"{{{','.join(pairs)}}}")


@given(objects(TEXTS | objects(TEXTS) | objects(TEXTS | OTHERS | objects(TEXTS)) | OTHERS))
@example('{"a" :"1","a":"2"}')
@example('{"a":"1","a":"2"}')
@example('{"a":{"b":"1","b":"2"}}')
@example('{"a":{"b":{"c":"","c":""}}}')
def test_whatever_way_it_takes_an_object_is_read_or_refused_alike(text: str) -> None:
    body = text.encode()

    assert read(body) == read_slowly(body)


@pytest.mark.parametrize("body", [b"", b"\xff", b'"a"', b"[]", b"\xef\xbb\xbf{}", b'{"a":"\xff"}'])
def test_what_is_no_object_of_texts_takes_the_long_way(body: bytes) -> None:
    assert read(body) == read_slowly(body)


def test_what_is_too_deep_is_told_as_such() -> None:
    with pytest.raises(RecursionError):
        read_strictly(b'{"a":' * 20_000)
