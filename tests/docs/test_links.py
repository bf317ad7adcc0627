"""Every link inside the repository leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
DECISIONS = Path("docs/decisions")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def _prose(page: Path) -> str:
    return FENCE.sub("", (ROOT / page).read_text("utf-8"))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page, made as GitHub makes them out of its headings."""
    headings = (re.sub(r"\]\([^)]*\)", "", text) for text in HEADING.findall(_prose(page)))
    return {re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in headings}


def _is_broken(page: Path, link: str) -> bool:
    address, _, anchor = link.partition("#")
    target = (ROOT / page).parent / address if address else ROOT / page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in _anchors(target.resolve().relative_to(ROOT))


def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(_prose(page)) if "://" not in link]

    assert [link for link in links if _is_broken(page, link)] == []


def test_every_decision_has_its_row() -> None:
    rows = _prose(DECISIONS / "README.md").splitlines()
    listed = [link for row in rows if row.startswith("| [") for link in LINK.findall(row)]

    assert listed == sorted(each.name for each in (ROOT / DECISIONS).glob("[0-9]*.md"))


def test_a_broken_link_is_noticed() -> None:
    readme = Path("README.md")

    assert not _is_broken(readme, "docs/runbook.md#credentials")
    assert _is_broken(readme, "docs/no-such-page.md")
    assert _is_broken(readme, "docs/runbook.md#no-such-heading")
