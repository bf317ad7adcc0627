"""Writes measurements into docs/performance.md, between its markers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import Report
from benchmarks.table import Table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
TITLE = "### "


class NoMarkers(Exception):
    """The page does not hold the two markers in their order."""


def write_docs(report: Report, page: Path = PAGE) -> None:
    """Put the tables between the markers of `page`.

    Those of a whole run replace all that stands there. Those of any other run replace the tables
    of the same titles, or stand behind the others, and each says when it was measured.
    """
    text = page.read_text()
    head, tables = markdown(report)
    if not report.whole:
        there, kept = _parts(text.partition(BEGIN)[2].partition(END)[0])
        head, tables = there or head, kept | tables
    page.write_text(between_markers(text, "\n\n".join([head, *tables.values()])))


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """Take apart what stands between the markers: the head, and each table by its title."""
    head, *tables = text.strip().split(f"\n{TITLE}")
    kept = {each.partition("\n")[0]: f"{TITLE}{each.strip()}" for each in tables}
    return head.strip(), kept


def between_markers(text: str, new: str) -> str:
    """Replace what stands between the markers. Raises NoMarkers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise NoMarkers(f"there must be a line {BEGIN} and after it one {END}")
    return f"{head}{BEGIN}\n{new}\n{END}{tail}"


def markdown(report: Report) -> tuple[str, dict[str, str]]:
    """Write the report: the head, with machine and versions, and each table by its title."""
    # What backs a server begins with the program's own name.
    named = (what if " " in what else f"{name} {what}" for name, what in report.versions.items())
    told = f"Measured {report.date} with `{report.command}`"
    head = f"{told} on {report.machine}. {', '.join(named)}."
    written = {}
    for table in report.tables:
        parts = [f"{TITLE}{table.title}", _rows(table)]
        parts += [table.note] if table.note else []
        parts += [] if report.whole else [f"{told}, commit {report.versions['commit']}."]
        written[table.title] = "\n\n".join(parts)
    return head, written


def _rows(table: Table) -> str:
    head = [column.heading for column in table.columns]
    ruler = ["---:"] * len(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *table.cells()))
