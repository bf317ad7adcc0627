"""A login and its password in the header that most couriers' accounts are asked with."""

from __future__ import annotations

import pytest
from aiohttp import encode_basic_auth

from couriers.http.credentials import basic_auth


@pytest.mark.parametrize(
    ("login", "password", "written"),
    [
        ("Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("test", "123£", "Basic dGVzdDoxMjPCow=="),
        ("key", "", "Basic a2V5Og=="),
        ("key", "a:b", "Basic a2V5OmE6Yg=="),
    ],
)
def test_a_login_and_its_password_are_written_as_rfc_7617_has_them(
    login: str, password: str, written: str
) -> None:
    assert basic_auth(login, password) == written == encode_basic_auth(login, password)


def test_a_colon_would_end_the_login_and_is_refused() -> None:
    with pytest.raises(ValueError, match="no colon"):
        basic_auth("user:name", "password")
