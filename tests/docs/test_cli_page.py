"""docs/cli.md names every verb as the command line knows it."""

from __future__ import annotations

from cli_page import GROUPS, PAGE, page

from service.console.parser import VERBS


def test_the_page_of_the_command_line_is_what_the_parser_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "python tests/docs/cli_page.py writes it again"


def test_every_verb_stands_in_a_group() -> None:
    grouped = {name for names in GROUPS.values() for name in names}

    assert set(VERBS) <= grouped
