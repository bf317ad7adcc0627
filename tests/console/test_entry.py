"""worker.py itself: quick help, errors in one line, and arguments that all verbs read alike."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Run

from service import VERSION
from service.console.output import moment, span
from service.console.parser import MODULES, VERBS, VerbParser, parser

ROOT = Path(__file__).parents[2]
COLUMNS = 80
HEAVY = {"redis", "pymongo", "aiohttp", "greenstalk", "msgspec", "rich", "asyncio"}
ASKING = {"aiohttp", "couriers.http.fetch", "lxml", "xml.sax", "yarl"}
SERVING = {"run", "demo", "ingest", "api"}

LOADED = """
from importlib.util import _LazyModule
def loaded():
    unread = (_LazyModule, type(None))
    return [name for name, module in sys.modules.items() if type(module) not in unread]
"""
"""What is loaded in a process, without what would be loaded when it is used, or is never loaded."""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )


@pytest.fixture(scope="module")
def loaded_by_help() -> dict[str, set[str]]:
    """The packages that the help of each verb loads, told by a process of its own."""
    code = f"""
import contextlib, io, os, runpy, sys, service.console
{LOADED}
for verb in {["", *VERBS]}:
    if os.fork():
        os.wait()
        continue
    sys.argv = ["worker.py", *verb.split(), "--help"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        runpy.run_path("worker.py", run_name="__main__")
    print(f"{{verb}}:", *{{name.partition(".")[0] for name in loaded()}}, flush=True)
    os._exit(0)
"""
    told = (line.partition(":") for line in python(code).stdout.splitlines())
    return {verb: set(packages.split()) for verb, _, packages in told}


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_imports_nothing_heavy(verb: str, loaded_by_help: dict[str, set[str]]) -> None:
    assert "argparse" in loaded_by_help[verb]
    assert (
        not (HEAVY - ({"msgspec"} if verb in {"config", "completion"} else set()))
        & loaded_by_help[verb]
    )


def test_the_parent_process_loads_no_server_and_no_couriers_code() -> None:
    code = f"""
import os, sys
from service.console import main
from service.worker.supervisor.parent import Parent
{LOADED}
os.environ["TRACKER_METRICS__LISTEN"] = ""
Parent.run = lambda parent: print(*loaded()) or 0
main(["run"])
"""
    modules = python(code).stdout.split()
    packages = {name.partition(".")[0] for name in modules}
    assert "service.worker.supervisor.parent" in modules
    assert not (HEAVY - {"msgspec"}) & packages
    assert "limits" not in packages
    # Their names and what takes secrets out of texts: neither needs a library.
    small = {"couriers", "couriers.slugs", "couriers.http", "couriers.http.redaction"}
    assert {name for name in modules if name.startswith("couriers")} <= small


@pytest.fixture(scope="module")
def loaded_by_children() -> list[set[str]]:
    """The modules of the process that archives, then of all processes of a worker."""
    code = """
import sys
import service.worker.wiring.process
print(*sys.modules)
import service.worker.wiring.worker
print(*sys.modules)
"""
    return [set(line.split()) for line in python(code).stdout.splitlines()]


def test_no_process_loads_what_mongodb_is_not_reached_with(
    loaded_by_children: list[set[str]],
) -> None:
    modules = loaded_by_children[-1]
    assert "pymongo.ssl_support" in modules
    assert "cryptography.x509" not in modules


def test_the_process_that_archives_loads_no_courier_and_nothing_that_asks_one(
    loaded_by_children: list[set[str]],
) -> None:
    modules = loaded_by_children[0]
    assert "service.worker.upkeep.archiver" in modules
    assert not (ASKING | {"couriers.registry", "service.worker.flow", "aiosmtplib"}) & modules


def test_what_it_takes_to_ask_a_courier_is_loaded_by_no_verb_but_those_that_serve() -> None:
    verbs = {f"service.console.{MODULES.get(verb, verb)}" for verb in VERBS if verb not in SERVING}
    code = f"""
import sys
import {", ".join(sorted(verbs))}
print(*sys.modules)
"""
    assert not ASKING & set(python(code).stdout.split())


def test_who_only_puts_loads_no_driver_of_a_store() -> None:
    code = f"""
import io, sys
from service.console import main
{LOADED}
for words in (["detect", "986578788855"], ["put", "usps"], ["recover", "--dry-run"]):
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
    main(words)
print(*loaded())
"""
    names = set(python(code).stdout.split())
    assert "service.operator.catalogue" in names
    assert not {"redis", "pymongo"} & names


def test_a_verb_that_asks_no_server_loads_nothing_that_it_does_not_need() -> None:
    code = f"""
import sys
from service.console import main
{LOADED}
for words in (["detect", "986578788855"], ["config", "show"]):
    main(words)
print(*{{name.partition(".")[0] for name in loaded()}}, file=sys.stderr)
"""
    spared = (HEAVY - {"msgspec"}) | {"ssl", "pydoc", "prometheus_client"}
    assert not spared & set(python(code).stderr.split())


def test_the_version_is_told_and_nothing_else(offline: Run) -> None:
    done = offline("--version")
    assert (done.code, done.lines) == (0, [f"courier-tracking-worker {VERSION}"])


def parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every parser of a verb or of an action, with `top` itself."""
    if isinstance(top, VerbParser):
        top.learn()
    yield top
    for action in top._actions:  # noqa: SLF001 - argparse tells its verbs nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            for each in action.choices.values():
                yield from parsers(each)


def test_every_verb_has_help_with_exit_codes_that_fits_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    for each in parsers(parser()):
        text = each.format_help()
        assert "exit codes:" in text, each.prog
        assert max(map(len, text.splitlines())) <= COLUMNS, each.prog


def typed(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f'"$0" worker.py {command}', sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_output_that_takes_nothing_is_told_in_a_line() -> None:
    done = typed("config show > /dev/full")
    told = "tracker: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_closed_inputs_and_outputs_are_empty_ones() -> None:
    done = typed("put usps <&- >&-")
    told = "tracker: standard input holds no request: give it one number per line\n"
    assert (done.returncode, done.stderr) == (2, told)
    done = typed("config show >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_configuration_stops_every_verb_in_a_line(offline: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[limits]\nconcurent = 3\n")
    for arguments in (
        ["run"],
        ["check"],
        ["info"],
        ["config", "show"],
        ["put", "usps", "94000001"],
    ):
        done = offline("--config", str(file), *arguments)
        assert done.code == 2
        assert "limits.concurent" in done.err
        assert "Did you mean limits.concurrent?" in done.err
        assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[limits.slugs.dpd-ukk]\nconcurrent = 1\n", "Did you mean limits.slugs.dpd-uk?"),
        ('[couriers.nobody]\nclient_id = "abcd"\n', "couriers.nobody"),
        ('[couriers.nobody]\nmodule = "json_fed"\nbase_url = "http://h"\n', "json_feed"),
    ],
)
def test_a_courier_that_does_not_exist_is_refused(
    offline: Run, tmp_path: Path, text: str, word: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    done = offline("--config", str(file), "info")
    assert done.code == 2
    assert word in done.err


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = typed("config show | head -1")
    assert done.stdout.startswith("# file:")
    assert done.stderr == ""


def typed_of(verb: argparse.ArgumentParser) -> list[str]:
    """Words for what a verb asks for before it does anything."""
    words = verb.prog.split()[1:]
    for each in verb._actions:  # noqa: SLF001 - as above
        if each.required and each.nargs != argparse.OPTIONAL:
            word = "read" if each.dest == "scope" else str(next(iter(each.choices or ["1"])))
            words += [*each.option_strings[:1], word]
    return words


def test_outside_its_environment_every_verb_says_what_to_do() -> None:
    # One that has actions is typed with each of them.
    verbs = [each for each in parsers(parser()) if len(list(parsers(each))) == 1]
    commands = [[], *map(typed_of, verbs)]
    code = f"""
import contextlib, io, os, runpy, sys, service.console
for command in {commands}:
    if os.fork():
        os.wait()
        continue
    sys.argv = ["worker.py", *command]
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.suppress(SystemExit):
        runpy.run_path("worker.py", run_name="__main__")
    print(*command, "::", *told.getvalue().split(), flush=True)
    os._exit(0)
"""
    done = subprocess.run(
        # Without the packages of the environment, as the system's Python runs it.
        [sys.executable, "-S", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert len(done.stdout.splitlines()) == len(commands)
    for line in done.stdout.splitlines():
        assert "is not installed: use .venv/bin/python" in line, line


@pytest.mark.parametrize(
    "line",
    [
        ["cancel", "--slug", "", "--origin", "AUTOMATIC", "--yes"],
        ["cancel", "--csv", "", "--older-than", "1h", "--yes"],
        ["cancel", "--id", "", "--slug", "usps", "--yes"],
        ["dead", "delete", "--slug", "", "--reason", "too_late", "--yes"],
        ["dead", "kick", "--slug", "usps", "--reason", " ", "--yes"],
        ["dead", "list", "--slug", ""],
        ["resend", "", "--since", "1h", "--yes"],
        ["resend", "usps", "", "--since", "1h", "--yes"],
        ["resend", "usps", "--reason", "", "--since", "1h", "--yes"],
        ["reparse", "--slug", ""],
        ["show", "--id", ""],
        ["stats", "--slug", ""],
    ],
    ids=" ".join,
)
def test_an_empty_name_is_refused(offline: Run, line: list[str]) -> None:
    done = offline(*line)

    assert done.code == 2
    assert "it is empty: name one, or leave it out" in done.err


NUMBER = "9405903699300184125060"
COMMANDS = [
    ("run",),
    ("check",),
    ("doctor",),
    ("config", "show"),
    ("config", "show", "--json"),
    ("info",),
    ("put", "usps", NUMBER),
    ("show", "usps", NUMBER),
    ("cancel", "usps", NUMBER),
    ("dead", "list"),
    ("detect", NUMBER),
    ("reparse",),
]
WRONG = """\
[couriers.upps]
client_id = 3
[limits]
per_second = "fast"
"""


@pytest.mark.parametrize("verb", COMMANDS, ids=" ".join)
def test_every_verb_tells_all_wrong_values_and_does_nothing(
    offline: Run, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(WRONG)

    done = offline("--config", str(file), *verb)

    assert (done.code, done.out) == (2, "")
    told = [line.split(" (")[0] for line in done.err.splitlines()]
    assert told == [
        "tracker: couriers.upps.client_id",
        "tracker: limits.per_second",
    ]
    assert all(line.endswith((".", "?")) for line in done.err.splitlines())


@pytest.mark.parametrize("verb", [("run",), ("check",), ("config", "show")], ids=" ".join)
def test_a_slip_in_a_variable_is_answered_with_a_variable(
    offline: Run, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TRACKER_LIMITS__SLUGS__UPPS__CONCURRENT", "1")

    done = offline(*verb)

    assert done.code == 2
    assert done.err.endswith("Did you mean TRACKER_LIMITS__SLUGS__UPS?\n")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, "0 s"),
        (0.4, "under 1 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3_605, "1 h"),
        (7_260, "2 h 1 min"),
        (86_400, "1 d"),
        (200_000, "2 d 7 h"),
    ],
)
def test_lengths_of_time_are_worded_with_at_most_two_units_and_none_of_them_is_nought(
    seconds: float | None, words: str
) -> None:
    assert span(seconds) == words


def test_no_instant_is_no_words() -> None:
    assert moment(None) == ""


@pytest.mark.parametrize("verb", [("cancel", "--older-than"), ("resend", "--since")])
@pytest.mark.parametrize("text", ["2026", "2026-11-20", "-1h", "1_0h", "1e3s", "nan", "h", ""])
def test_what_acts_on_many_takes_a_length_of_time_with_its_unit_alone(
    offline: Run, verb: tuple[str, str], text: str
) -> None:
    done = offline(verb[0], f"{verb[1]}={text}", "--yes")

    assert done.code == 2
    assert "90s, 15m, 2h or 3d" in done.err
