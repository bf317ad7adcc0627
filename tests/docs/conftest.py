"""The documents, found once."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_OURS = {"node_modules", "vendor"}


def pages() -> list[Path]:
    """Every page of the repository, without what was installed into it."""
    found = (page.relative_to(ROOT) for page in ROOT.rglob("*.md"))
    return sorted(
        page
        for page in found
        if not any(part.startswith(".") or part in NOT_OURS for part in page.parts)
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", pages(), ids=str)
