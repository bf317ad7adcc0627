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
from portion import daily
from test_entry import ROOT, parsers

from service.console.arguments import seconds_of
from service.console.examples import USAGES
from service.console.parser import parse, parser
from service.operator import connections


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


ASKS = {
    name.split()[0]: usage.examples[0]
    for name, usage in USAGES.items()
    if usage.asks and name not in {"run", "api", "ingest", "doctor"}
}
"""An example of each verb that asks servers, but does not wait for them."""
SPOOLED = (
    '{"spooled":{"type":"requests_flow","payload":{"slug":"usps","number":"94001","id":"r"}}}\n'
)


@pytest.fixture
def away(offline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line where no server answers, and all that examples name is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACKER_COURIERS__USPS__CLIENT_ID", "id")
    monkeypatch.setenv("TRACKER_COURIERS__USPS__CLIENT_SECRET", "secret")
    monkeypatch.setenv("TRACKER_MAIL__HOST", "127.0.0.1")
    monkeypatch.setenv("TRACKER_MAIL__SENDER", "tracker@example.com")
    monkeypatch.setattr(connections, "PATIENCE_MS", 50)
    (tmp_path / "orders.csv").write_text("number,slug\n9405903699300184125060,usps\n")
    (tmp_path / "body.json").write_text("{}")
    (tmp_path / "door.log").write_text(SPOOLED)
    return offline


@pytest.mark.parametrize("example", daily([ASKS["info"]], "doctor usps", *ASKS.values()))
def test_a_server_that_does_not_answer_is_told_with_exit_code_3(away: Run, example: str) -> None:
    done = away(*shlex.split(example))

    assert done.code == 3, done
    assert "not answer" in done.out + done.err
    assert "Traceback" not in done.err
    assert done.out or "doctor" in done.err


@pytest.mark.parametrize(
    ("typed_words", "hint"),
    [
        ("inf", "there is no verb 'inf': did you mean info?"),
        ("dead lst", "there is no action 'lst': did you mean list?"),
        ("list --tga Exception", "list: error: there is no option --tga: did you mean --tag?"),
        ("dead list --xyz", "there is no option --xyz: `tracker dead list --help` lists them"),
        ("xyz", "there is no verb 'xyz': `tracker --help` lists them"),
    ],
)
def test_an_unknown_verb_or_option_is_answered_with_the_nearest(
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
