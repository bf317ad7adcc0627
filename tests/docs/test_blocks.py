"""Blocks of commands in docs/http.md and examples/README.md: each is run by a test, or says not.

What is keyless `curl` alone `tests/door/test_openapi.py` sends as it stands there, the producers
`tests/examples` run. Each other block has a comment above it that says who runs it, or that nobody
does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/http.md", "examples/README.md")
MARK = re.compile(r"<!-- run by (tests/\S+|nobody: .+) -->")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Each block of commands, and the line above it."""
    lines = ["", *(ROOT / page).read_text("utf-8").splitlines()]
    for at, line in enumerate(lines):
        if line == "```sh":
            end = lines.index("```", at)
            yield lines[at - 1], "\n".join(lines[at + 1 : end])


def is_keyless_curl(block: str) -> bool:
    commands = block.replace("\\\n", " ").splitlines()
    return "$KEY" not in block and all(
        each.startswith("curl ") for each in commands if each and not each.startswith("#")
    )


@pytest.mark.parametrize("name", PAGES)
def test_each_block_of_commands_is_run_or_says_that_it_is_not(name: str) -> None:
    unmarked = [
        block
        for above, block in blocks(name)
        if not (name == "docs/http.md" and is_keyless_curl(block)) and not MARK.fullmatch(above)
    ]

    assert unmarked == []


def test_what_is_said_to_run_a_block_is_there() -> None:
    named = {
        found[1]
        for page in PAGES
        for above, _ in blocks(page)
        if (found := MARK.fullmatch(above)) and found[1].startswith("tests/")
    }

    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []
