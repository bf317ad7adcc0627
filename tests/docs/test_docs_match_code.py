"""What the documents say of commands, settings, folders and dependencies is so."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import tomllib
from pathlib import Path

import pytest

from service.config.paths import is_table, kind_at
from service.console.parser import parser
from service.worker.tubes import envelope
from tracking.errors import CourierError, InvalidNumber

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(
    r"(?:worker\.py|\.venv/bin/tracker|(?:`|^|\$\(|exec \w+ )tracker)((?: [\w.<>:/=-]+)+)",
    re.MULTILINE,
)
"""A command line as it is typed in a clone, in a container, or where `tracker` is on the path."""
NOT_PAGES = ("config.toml", "docker-compose.yml", "examples/monitoring/prometheus.yml")
"""What names commands to its readers and is no page."""
SETTING = re.compile(r"`\[([a-z_.<>A-Z-]+)\] (\w+)`")
TARGET = re.compile(r"(?:`|^)make ([a-z]+)", re.MULTILINE)


def _text(page: Path) -> str:
    return (ROOT / page).read_text("utf-8")


@functools.cache
def _help(*verb: str) -> str | None:
    """What `tracker VERB --help` prints; None when there is no such verb."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
        try:
            parser().parse_args([*verb, "--help"])
        except SystemExit as ended:
            return shown.getvalue() if not ended.code else None
    return None


def _is_wrong(command: str) -> bool:
    words = re.sub(r"^ (?:--config \S+|VERB)", "", command).split()
    if not words or words[0] == "--help":
        return False
    options = [word for word in words if word.startswith("--")]
    # The second word is a verb only below these, else an argument.
    verb = words[
        : 2
        if words[0] in {"account", "config", "dead", "delivery", "inbox", "key", "service", "user"}
        else 1
    ]
    shown = _help(*verb)
    return shown is None or any(option not in shown for option in options)


def test_every_command_that_a_page_names_exists(page: Path) -> None:
    commands = COMMAND.findall(_text(page))

    assert [command for command in commands if _is_wrong(command)] == []


@pytest.mark.parametrize("file", [*NOT_PAGES, *map(str, ROOT.glob("*.service"))])
def test_every_command_that_a_file_of_settings_names_exists(file: str) -> None:
    commands = COMMAND.findall(_text(Path(file)))

    assert [command for command in commands if _is_wrong(command)] == []


@pytest.mark.parametrize(
    "typed",
    [
        "`.venv/bin/tracker no-such-verb`",
        "`tracker no-such-verb`",
        "tracker no-such-verb",
        "docker compose exec worker tracker no-such-verb",
        "KEY=$(tracker no-such-verb)",
        "`python worker.py no-such-verb`",
    ],
)
def test_a_command_is_seen_however_it_is_typed(typed: str) -> None:
    assert COMMAND.findall(typed) == [" no-such-verb"]


def test_pages_have_people_type_the_command_and_not_the_program(page: Path) -> None:
    typed = re.findall(r"python worker\.py [a-z]", _text(page))

    assert typed == [] or page.name in {"README.md", "CHANGELOG.md"}


def test_an_unknown_command_or_option_is_noticed() -> None:
    assert not _is_wrong(" info --watch")
    assert _is_wrong(" no-such-verb")
    assert _is_wrong(" dead undo")
    assert _is_wrong(" info --no-such-option")


def test_every_setting_that_a_page_names_exists(page: Path) -> None:
    named = [(*section.split("."), key) for section, key in SETTING.findall(_text(page))]

    wrong = [path for path in named if kind_at(path) is None or is_table(kind_at(path))]
    assert wrong == []


def test_every_variable_that_a_page_sets_is_a_setting(page: Path) -> None:
    named = re.findall(r"\bTRACKER_([A-Z]+)__([A-Z_]+?)(?:_FILE)?=", _text(page))

    wrong = [path for path in named if kind_at(tuple(map(str.lower, path))) is None]
    assert [path for path in wrong if path[0] != "COURIERS"] == []


def _written(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace("'", '"').removesuffix(".0")


def test_every_default_in_the_interface_is_that_of_the_configuration() -> None:
    written = tomllib.loads((ROOT / "config.toml").read_text("utf-8"))
    rows = re.findall(
        r"^\| (`\[[^|]+) \| ([^|]+) \|", _text(Path("docs/interface.md")), re.MULTILINE
    )
    checked = 0

    for names, values in rows:
        pairs = zip(SETTING.findall(names), values.replace("`", "").split(", "), strict=True)
        for (section, key), value in pairs:
            if section in written:
                assert _written(written[section][key]) == value
                checked += 1
    assert checked > 0


def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    assert set(TARGET.findall(_text(page))) <= targets


def test_contributing_lists_the_folders_that_exist() -> None:
    section = _text(Path("CONTRIBUTING.md")).split("## Folders")[1].split("##")[0]
    listed = set(re.findall(r"`(\w+)/`", section))

    assert listed == _folders(ROOT)


def _folders(root: Path) -> set[str]:
    """The folders of the project, without what Python and other tools leave beside them."""
    return {
        folder.name
        for folder in root.iterdir()
        if folder.is_dir() and folder.name[0] not in "._" and any(folder.rglob("*.*"))
    }


def test_what_python_and_other_tools_leave_is_no_folder_of_the_project(tmp_path: Path) -> None:
    for file in ("limits/keys.py", "__pycache__/worker.cpython-311.pyc", ".venv/pyvenv.cfg"):
        path = tmp_path / file
        path.parent.mkdir()
        path.touch()

    assert _folders(tmp_path) == {"limits"}


@pytest.mark.parametrize(
    ("heading", "file"),
    [("at run time", "requirements.in"), ("for development", "requirements-dev.in")],
)
def test_contributing_gives_a_reason_for_each_dependency(heading: str, file: str) -> None:
    table = _text(Path("CONTRIBUTING.md")).split(f"| {heading} | because |\n|---|---|\n")[1]
    rows = table.split("\n\n")[0].splitlines()
    listed = {name for row in rows for name in row.split("|")[1].strip().split(", ")}

    lines = (ROOT / file).read_text("utf-8").splitlines()
    required = {re.split(r"[ =<>;]", line)[0] for line in lines if line and line[0] not in "#-"}
    assert listed == required


def _codes(error: type[CourierError]) -> set[str]:
    """The codes of errors that may end a request: what hinders a delivery is in no `dead`."""
    below = (each for each in error.__subclasses__() if each.__module__ == error.__module__)
    return {error.code}.union(*map(_codes, below))


def test_the_runbook_says_what_to_do_about_every_reason_of_dead_requests() -> None:
    section = _text(Path("docs/runbook.md")).split("## Requests end as dead")[1].split("## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    documented = {reason for row in rows for reason in re.findall(r"`([a-z_0-9]+)`", row)}

    final = _codes(CourierError) - {CourierError.code, InvalidNumber.code}
    malformed = set(re.findall(r"^([a-z_0-9]+) {2,}", envelope.__doc__ or "", re.MULTILINE))
    assert final <= documented
    others = {"wait_list_full", "id_reused", "too_late", "defect", "results_down", "buried"}
    others |= {"unstorable_request"}
    assert documented <= final | malformed | others
    # The rest is told together, as "other bad_…".
    assert all(reason.startswith("bad_") for reason in malformed - {"reason"} - documented)


def test_every_word_of_the_glossary_is_used_in_the_code() -> None:
    glossary = re.findall(r"^\| (\*\*[^|]+) \|", _text(Path("docs/glossary.md")), re.MULTILINE)
    words = [word for cell in glossary for word in re.findall(r"\*\*([^*]+)\*\*", cell)]
    folders = ("tracking", "couriers", "limits", "service")
    files = (file for folder in folders for file in (ROOT / folder).rglob("*.*"))
    code = "\n".join(file.read_text("utf-8") for file in files if file.suffix in {".py", ".lua"})

    # Inside names too: `wait_list`, `max_waiting`, `in_flight`.
    spoken = re.sub(r"[_-]", " ", code).lower()
    assert [word for word in words if re.sub("-", " ", word).lower() not in spoken] == []
