"""Pages hold nothing that their policy forbids, and nothing of couriers or users unescaped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[2] / "service" / "web"
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))

FORBIDDEN = {
    "what is not escaped": r"\|\s*safe\b|\bautoescape\b|\bMarkup\b",
    "an inline style": r"""\bstyle\s*=|<style\b""",
    "an inline script": r"""\son[a-z]+\s*=|\bhx-on|<script(?![^>]*\bsrc=)|javascript:""",
    "a script that htmx would evaluate": r"""\bhx-vals\s*=\s*["']js:|\bhx-vars\b|\bhx-headers\b""",
    "an address at another host": r"""\b(?:src|href|action|hx-\w+)\s*=\s*["']?(?:https?:)?//""",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_template_holds(what: str) -> None:
    found = [
        f"{path.relative_to(WEB)}:{number}: {line.strip()}"
        for path in TEMPLATES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]

    assert found == []


def test_each_form_that_posts_carries_the_token() -> None:
    """A form without it would be refused whenever somebody submits it."""
    found = [
        f"{path.relative_to(WEB)}: {form[:80]}"
        for path in TEMPLATES
        for form in re.findall(r"<form\b.*?</form>", path.read_text(), re.DOTALL)
        if re.search(r"""method=["']?post""", form, re.IGNORECASE) and "csrf()" not in form
    ]

    assert found == []


def test_our_script_writes_no_html_and_evaluates_nothing() -> None:
    ours = (WEB / "static" / "pages.js").read_text()

    assert len(ours.splitlines()) <= 100
    words = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|https?://"
    assert re.search(words, ours) is None
