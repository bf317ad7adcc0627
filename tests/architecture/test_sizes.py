"""Nothing grows beyond what can be read in one sitting, and no file is a fragment of a thing."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PRODUCT = ("tracking", "couriers", "limits", "service")
PACKAGES = (*PRODUCT, "devstack")
BESIDE = ("tests", "benchmarks", "examples")

FILE_LINES = 450
FILE_LINES_LEAST = 60
TABLES = {"__init__.py", "codes.py", "phrases.py", "slugs.py"}
"""They are as long as what they list."""

FUNCTION_LINES = 40
PUBLIC_METHODS = 8
PARAMETERS = 5

VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}

type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)


def files(*folders: str) -> list[Path]:
    found = [REPOSITORY / "worker.py"]
    for folder in folders:
        found += (REPOSITORY / folder).rglob("*.py")
        found += (REPOSITORY / folder).rglob("*.lua")
    return sorted(path for path in found if path.exists())


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in files(*PACKAGES):
        if path.suffix == ".py":
            yield str(path.relative_to(REPOSITORY)), parsed(path.read_text())


def parsed(source: str) -> ast.Module:
    """Parse, and collect no garbage meanwhile.

    Whatever a collection calls may parse too (a traceback that is formatted does), and Pythons
    before 3.11.8 then raise SystemError here: python/cpython#106905.
    """
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, type_of_function):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    taken = function.args
    names = [each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def public_methods(kind: ast.ClassDef) -> list[str]:
    return [
        node.name
        for node in kind.body
        if isinstance(node, type_of_function)
        and not node.name.startswith("_")
        and not any(ast.unparse(each).endswith("property") for each in node.decorator_list)
    ]


def listed(found: list[str]) -> str:
    return "\n".join(["found:", *found])


def test_no_file_is_longer_than_450_lines() -> None:
    too_long = [
        f"{path.relative_to(REPOSITORY)}: {lines} lines"
        for path in files(*PACKAGES, *BESIDE)
        if (lines := len(path.read_text().splitlines())) > FILE_LINES
    ]

    assert not too_long, listed(too_long)


def test_no_file_of_the_product_is_shorter_than_60_lines() -> None:
    too_short = [
        f"{path.relative_to(REPOSITORY)}: {lines} lines"
        for path in files(*PRODUCT)
        if path.suffix == ".py" and path.name not in TABLES and path.parent != REPOSITORY
        if (lines := len(path.read_text().splitlines())) < FILE_LINES_LEAST
    ]

    assert not too_short, listed(too_short)


def test_no_function_is_longer_than_40_lines() -> None:
    too_long = [
        f"{name}:{function.lineno} {function.name}: {length(function)} lines"
        for name, tree in trees()
        for function in functions(tree)
        if length(function) > FUNCTION_LINES
    ]

    assert not too_long, listed(too_long)


def test_no_function_takes_more_than_5_parameters() -> None:
    too_many = [
        f"{name}:{function.lineno} {function.name}: {parameters(function)} parameters"
        for name, tree in trees()
        for function in functions(tree)
        if parameters(function) > PARAMETERS
    ]

    assert not too_many, listed(too_many)


def test_no_class_has_more_than_8_public_methods() -> None:
    too_many = [
        f"{name}:{kind.lineno} {kind.name}: {', '.join(public_methods(kind))}"
        for name, tree in trees()
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef) and len(public_methods(kind)) > PUBLIC_METHODS
    ]

    assert not too_many, listed(too_many)


def test_no_file_has_a_name_that_says_nothing() -> None:
    vague = [
        str(path.relative_to(REPOSITORY))
        for path in files(*PACKAGES, *BESIDE)
        for part in path.relative_to(REPOSITORY).with_suffix("").parts
        if VAGUE & set(part.split("_"))
    ]

    assert not vague, listed(vague)


@pytest.mark.parametrize(
    ("source", "measured"),
    [
        ("def f(a, b, /, c, *rest, d, **more): ...", (1, 4)),
        ("class C:\n def m(self, a): ...", (1, 1)),
        ("async def f():\n  x = (\n   1,\n  )", (4, 0)),
    ],
)
def test_the_measures_measure(source: str, measured: tuple[int, int]) -> None:
    (function,) = functions(parsed(source))

    assert (length(function), parameters(function)) == measured


def test_properties_and_private_methods_are_no_public_methods() -> None:
    source = "class C:\n @property\n def a(self): ...\n def _b(self): ...\n def c(self): ..."
    (kind,) = parsed(source).body

    assert isinstance(kind, ast.ClassDef)
    assert public_methods(kind) == ["c"]


@contextmanager
def collections_that_parse() -> Iterator[None]:
    """Collect garbage all the time, and parse whenever it is collected."""

    def parse(*_: object) -> None:
        ast.parse("a + b")

    thresholds = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(10)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(parse)


def test_a_collection_of_garbage_in_the_middle_of_a_file_does_no_harm() -> None:
    with collections_that_parse():
        assert list(trees())
