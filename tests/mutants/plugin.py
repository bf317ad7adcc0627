"""Tells the trial how tests ended: `pytest -p mutants.plugin`.

A mutant is caught when a test's own call fails: by an assertion, a deadline, or an error where
the test expects none. A fixture that fails, or code that stumbles over a missing name or a wrong
type, proves only that the replacement is broken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

FILE = "MUTANT_ENDINGS"
"""The variable that names the file to write."""

TESTS = Path(__file__).resolve().parents[1]
STUMBLES = (SyntaxError, ImportError, NameError, AttributeError, TypeError)
IN_A_SCRIPT = ("user_script", "Error compiling script")
"""How Redis words that Lua itself stumbled."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One test that failed. `checked`: it caught something; `why` is for a person."""

    test: str
    checked: bool
    why: str


_FAILURES = pytest.StashKey[list[Failure]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FAILURES] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None:
        error = call.excinfo.value
        checked = call.when == "call" and _is_check(error, call.excinfo)
        why = f"{call.when}: {type(error).__name__}: {error}"
        item.config.stash[_FAILURES].append(Failure(item.nodeid, checked, why[:500]))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    told = [asdict(failure) for failure in session.config.stash[_FAILURES]]
    Path(os.environ[FILE]).write_text(json.dumps(told))


def _is_check(error: BaseException, excinfo: Any = None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_check(each) for each in error.exceptions)
    if any(word in str(error) for word in IN_A_SCRIPT):
        return False
    if not isinstance(error, STUMBLES):
        return True
    # `found["error"]` of nothing: what the test's own line raises is the test's verdict.
    return excinfo is not None and TESTS in Path(excinfo.traceback[-1].path).parents
