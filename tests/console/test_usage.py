"""How the command line is used: examples, the nearest verb, lengths of time, the Tab key."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Run
from test_entry import ROOT, parsers

from service.console.arguments import seconds_of
from service.console.examples import USAGES
from service.console.parser import parse, parser


def actions_of(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every parser that runs something: of an action, or of a verb without any."""
    for each in parsers(top):
        if each is not top and "ACTION" not in each.format_usage():
            yield each


def test_every_verb_and_action_has_an_example_that_is_read_as_it_stands() -> None:
    names = {each.prog.removeprefix("tracker").strip() for each in actions_of(parser())}
    assert set(USAGES) == names
    for name, usage in USAGES.items():
        for example in usage.examples:
            words = shlex.split(example)
            assert set(name.split()) <= set(words)
            assert callable(parse(words).run)


@pytest.mark.parametrize(
    ("typed_words", "hint"),
    [
        ("inf", "there is no verb 'inf': did you mean info?"),
        ("dead lst", "there is no action 'lst': did you mean list?"),
        ("xyz", "there is no verb 'xyz': `tracker --help` lists them"),
    ],
)
def test_an_unknown_verb_is_answered_with_the_nearest(
    typed_words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(typed_words.split())
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("0", 0), ("1.5m", 90), ("2h", 7200)])
def test_a_length_of_time_is_read_with_its_unit_or_in_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("tracker in", {"info", "inbox", "ingest"}),
        ("tracker dead k", {"kick"}),
        ("tracker dead list --re", {"--reason"}),
        ("tracker put --origin M", {"MANUAL"}),
    ],
)
def test_the_tab_key_completes_verbs_actions_and_options(
    tmp_path: Path, line: str, completed: set[str]
) -> None:
    # A shell reads what it is offered from descriptor 8, and errors from 9.
    command = 'exec "$0" worker.py 8>"$1" 9>/dev/null'
    asking = {"COMP_LINE": line, "COMP_POINT": f"{len(line)}", "_ARGCOMPLETE": "1"}
    offered = tmp_path / "offered"
    subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, str(offered)],
        cwd=ROOT,
        env=os.environ | asking | {"COMP_TYPE": "9", "_ARGCOMPLETE_SHELL": "bash"},
        check=False,
    )
    assert {each.strip() for each in offered.read_text().split("\v")} == completed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_what_completes(shell: str, offline: Run) -> None:
    assert "tracker" in offline("completion", shell).out
