"""docs/logs.md lists the events and fields that the code really emits, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from service.observe.events import Event

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logs.md").read_text("utf-8")
EMITTERS = {"emit", "_emit", "emit_unexpected"}
MADE_BY_THE_LOG = {"ts", "level", "worker", "left_out", "dropped"}


def trees() -> Iterator[ast.Module]:
    for file in (ROOT / "service").rglob("*.py"):
        if file.name != "events.py":
            yield ast.parse(file.read_text("utf-8"))


def called(node: ast.AST) -> str:
    """The last name of what is called or named: `emit` for `log.emit(…)`."""
    function = node.func if isinstance(node, ast.Call) else node
    return getattr(function, "id", getattr(function, "attr", ""))


def keys_in(node: ast.AST) -> set[str]:
    dicts = (each for each in ast.walk(node) if isinstance(each, ast.Dict))
    return {key.value for each in dicts for key in each.keys if isinstance(key, ast.Constant)}


def keys_of(name: str, tree: ast.Module) -> set[str]:
    """The keys of the dictionaries that a file binds to a name, or that its function makes."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            found |= keys_in(node)
        elif isinstance(node, ast.Assign) and name in map(called, node.targets):
            found |= keys_in(node.value)
    return found


def fields_emitted_in(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in EMITTERS:
            for each in node.keywords:
                found |= {each.arg} if each.arg else keys_of(called(each.value), tree)
    return found


def test_every_event_of_the_page_is_emitted_and_every_emitted_one_is_on_it() -> None:
    uses = (node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    emitted = {node.attr for node in uses if called(node.value) == "Event"}
    events = PAGE.split("## Events")[1]
    assert {Event[name].value for name in emitted} == set(
        re.findall(r"^\| `([^`]+)`", events, re.MULTILINE)
    )


def test_every_field_of_the_page_is_emitted_and_every_emitted_one_is_on_it() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.split("## Events")[0], re.MULTILINE)
    listed = {field for row in rows for field in re.findall(r"`(\w+)`", row)}
    emitted = set[str]().union(*map(fields_emitted_in, trees()))
    assert emitted | MADE_BY_THE_LOG == listed
