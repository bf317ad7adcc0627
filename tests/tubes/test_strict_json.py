"""What two readers could understand differently is refused."""

from __future__ import annotations

import pytest

from service.tubes.payload import read_strictly


def test_what_is_written_once_is_read() -> None:
    body = b'\n{"a": "a:b", "\\u0062": {"a": [1e3, null, "\\ud83d\\ude00"]}}\t'

    assert read_strictly(body) == {"a": "a:b", "b": {"a": [1000.0, None, "\U0001f600"]}}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a" :"1","a":"2"}',
        b'{"a":"1","\\u0061":"2"}',
        b'{"a":{"b":{"c":"","c":""}}}',
        b'{"a":NaN}',
        b"[-Infinity]",
        b"",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'{"a":"\t"}',
    ],
)
def test_what_is_written_twice_or_wrongly_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_strictly(body)


def test_what_is_too_deep_raises_an_error_of_its_own() -> None:
    with pytest.raises(RecursionError):
        read_strictly(b'{"a":' * 20_000)
