"""What is shipped says which version it is, and what is new in it."""

from __future__ import annotations

import re
from pathlib import Path

from service import VERSION

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_changelog_is_ready_for_the_tag_of_this_version() -> None:
    headings = re.findall(r"^## (.*)$", CHANGELOG.read_text("utf-8"), re.MULTILINE)

    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d", headings[1])
