"""Whatever a browser sends leads to this service alone, and nobody's header says who asks."""

from __future__ import annotations

import ipaddress
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict
from portion import examples

from service.http.proxies import Asking, asking
from service.web.entrance import own_path

pytestmark = pytest.mark.portion

HERE = "https://track.example.com"
PIECES = (
    "/",
    "\\",
    "//",
    "..",
    ".",
    "\t",
    "\r\n",
    " ",
    ":",
    "@",
    "?",
    "#",
    "%2f",
    "%5c",
    "evil.com",
)
PROXIES = (ipaddress.ip_network("10.0.0.0/24"),)


def as_browsers_read(path: str) -> str:
    """Browsers drop tabs and line ends, and take a backslash for a slash."""
    return path.translate({9: None, 10: None, 13: None}).replace("\\", "/")


@examples(25)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join))
@example("/\\evil.com")
@example("/\t/evil.com")
def test_a_login_goes_on_at_this_service_whatever_it_is_given(text: str) -> None:
    led = urlsplit(urljoin(HERE, as_browsers_read(own_path(text))))

    assert (led.scheme, led.netloc) == ("https", "track.example.com")


@examples(25)
@given(
    st.ip_addresses().map(str) | st.text(max_size=8),
    st.lists(
        st.tuples(
            st.sampled_from(["X-Forwarded-For", "X-Forwarded-Proto", "X-Email"]),
            st.text(max_size=12)
            | st.ip_addresses().map(str)
            | st.sampled_from(["https", "10.0.0.7"]),
        ),
        max_size=4,
    ),
)
def test_headers_of_who_is_no_trusted_proxy_say_nothing(
    address: str, headers: list[tuple[str, str]]
) -> None:
    sent, plain = CIMultiDict(headers), Asking(address, "http")
    by_proxy = asking(Asking("10.0.0.7", "http"), sent, PROXIES, "X-Email")

    assert by_proxy.scheme in {"http", "https"}
    assert ipaddress.ip_address(by_proxy.address)
    assert asking(plain, sent, (), "X-Email") == plain
