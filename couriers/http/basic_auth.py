"""How a login and its password travel in a header, as RFC 7617 says."""

from __future__ import annotations

import base64


def basic_auth(login: str, password: str) -> str:
    """Write the value of `Authorization`. Raises ValueError for a login with a colon in it."""
    if ":" in login:
        raise ValueError("RFC 7617 allows no colon in a login")
    return "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode()
