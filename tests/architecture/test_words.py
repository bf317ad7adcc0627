"""What the glossary says "not" to is no name in the code either."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
GLOSSARY = REPOSITORY / "docs" / "glossary.md"
PACKAGES = ("tracking", "couriers", "limits", "service")

MEANS_SOMETHING_ELSE = {
    "the libraries' and the protocols' own words": (
        "ack connection database fetch flush heartbeat id message payload pop priority query queue"
        " response task timeout token version"
    ),
    "couriers' words, as their answers spell them": "code event item return shipment state status",
    "names of companies": "slack",
    "plain English, where nothing of the glossary is meant": (
        "active allow cap capacity check complete crash delay failed lock margin poll processing"
        " provider publish push reject renew result source throttle try update"
    ),
}
"""Words that cannot be refused, by the reason."""

OLD_FORMS = re.compile(
    r"(?<![a-z])(?:who(?:so)?ever|whomever|anew|whence|thereof|thereby|wherein|lest|in[ _]vain"
    r"|of[ _]ours)(?![a-z])",
    re.IGNORECASE,
)
"""Riddles and words that nobody says: name who does it instead, or say "again"."""

TOLD = re.compile(r"\b(?:is|are|was|were|be|been) told\b")
"""Write who says it: "the log names it", "the event says why"."""

_ROW = re.compile(r"^\| \*\*[^|]+\|[^|]*\| ([^|]*) \|$", re.MULTILINE)
_SAID = re.compile(r"\*\*(\w+)\*\*")
"""A word that has a meaning of its own is not refused for the sake of another one."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LUA_COMMENT = re.compile(r"--\[\[.*?\]\]|--[^\n]*", re.DOTALL)
_LUA_NAME = re.compile(r"\b(?:local function|local|function|for)\s+([\w, .]+)")


def not_said() -> set[str]:
    """Every single word of the glossary's last column, and who does it: consume, consumer."""
    cells = _ROW.findall(re.sub(r"\(.*?\)", "", GLOSSARY.read_text()))
    words = {word.strip(" `") for cell in cells for word in cell.split(",")}
    single = {word for word in words if re.fullmatch(r"[a-z]+", word)}
    return single | {f"{word.removesuffix('e')}er" for word in single}


def refused() -> set[str]:
    spared = {word for words in MEANS_SOMETHING_ELSE.values() for word in words.split()}
    spared |= set(_SAID.findall(GLOSSARY.read_text()))
    return not_said() - spared - {f"{word.removesuffix('e')}er" for word in spared}


def names_in(path: Path) -> Iterator[str]:
    """The names that a file gives, its own among them."""
    yield path.stem
    text = path.read_text()
    if path.suffix == ".lua":
        for names in _LUA_NAME.findall(_LUA_COMMENT.sub("", text)):
            yield from re.findall(r"\w+", names)
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def words_of(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def code() -> list[Path]:
    folders = [REPOSITORY / package for package in PACKAGES]
    return [path for folder in folders for path in folder.rglob("*.*") if path.suffix in _CODE]


_CODE = {".py", ".lua"}


def test_no_name_in_the_code_holds_a_word_that_the_glossary_says_not_to_say() -> None:
    never = refused()
    said = {
        (word, str(path.relative_to(REPOSITORY)))
        for path in code()
        for name in names_in(path)
        for word in words_of(name) & never
    }

    assert said == set()


def texts() -> list[Path]:
    """Everything that people read here, but for this file."""
    folders = (*PACKAGES, "benchmarks", "devstack", "docs", "examples", "tests")
    below = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.*")]
    texts = [*REPOSITORY.glob("*.*"), *below]
    return [path for path in texts if path.suffix in _READ and path != Path(__file__)]


_READ = {*_CODE, ".md", ".toml"}


def found(form: re.Pattern[str], paths: Iterable[Path]) -> list[str]:
    """Where texts hold what matches, with its line."""
    return [
        f"{path.relative_to(REPOSITORY)}:{text[: match.start()].count(chr(10)) + 1}: {match[0]}"
        for path in paths
        for text in [path.read_text()]
        for match in form.finditer(text)
    ]


def test_no_text_holds_a_word_of_an_old_form() -> None:
    assert found(OLD_FORMS, texts()) == []


def test_no_text_but_the_tests_leaves_open_who_tells_whom() -> None:
    paths = [path for path in texts() if not path.is_relative_to(REPOSITORY / "tests")]

    assert found(TOLD, paths) == []


@pytest.mark.parametrize(
    "text", ["Whoever asks", "made anew", "a defect of ours", "test_whoever_asks", "is_named_anew"]
)
def test_a_planted_old_form_is_found(text: str) -> None:
    assert OLD_FORMS.search(text)


def test_every_word_that_is_spared_stands_in_the_glossary() -> None:
    spared = {word for words in MEANS_SOMETHING_ELSE.values() for word in words.split()}

    assert spared - not_said() == set()


@pytest.mark.parametrize("word", ["circuit", "consumer", "reap", "requeue", "enqueue", "bucket"])
def test_an_unmistakable_word_is_refused(word: str) -> None:
    assert word in refused()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.py", "def reap_all(): ..."),
        ("a.py", "class JobConsumer: ..."),
        ("a.py", "self.circuit_open = True"),
        ("a.lua", "local function reap(key)"),
        ("a.lua", "local first, enqueue = 1, 2"),
        ("requeue.py", ""),
    ],
)
def test_a_planted_word_is_found(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)

    said = {word for name in names_in(tmp_path / file) for word in words_of(name)}

    assert said & refused()
