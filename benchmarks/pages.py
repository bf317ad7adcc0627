"""Writes measurements into docs/performance.md, between its markers, and draws the plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.plan import Table
from benchmarks.report import Report
from benchmarks.svg import Axis, Line, plot

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "performance.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
PLOTS = "plots"
TITLE = "### "


class NoMarkers(Exception):
    """The page does not hold the two markers in their order."""


def write_docs(report: Report, page: Path = PAGE) -> list[Path]:
    """Put the tables between the markers of `page`; returns the files that were written.

    Those of a whole run replace all that stands there. Those of any other run replace the tables
    of the same titles, or stand behind the others, and each says when it was measured.
    """
    drawn = dict(_plots(report))
    folder = page.parent / PLOTS
    folder.mkdir(exist_ok=True)
    written = [page]
    for name, drawing in drawn.items():
        written.append(folder / f"{name}.svg")
        written[-1].write_text(drawing)
    text = page.read_text()
    head, tables = markdown(report, tuple(drawn))
    if not report.whole:
        there, kept = _parts(text.partition(BEGIN)[2].partition(END)[0])
        head, tables = there or head, kept | tables
    page.write_text(between_markers(text, "\n\n".join([head, *tables.values()])))
    return written


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


def markdown(report: Report, plots: tuple[str, ...] = ()) -> tuple[str, dict[str, str]]:
    """Write the report: the head, with machine and versions, and each table by its title."""
    # What backs a server begins with the program's own name.
    named = (what if " " in what else f"{name} {what}" for name, what in report.versions.items())
    told = f"Measured {report.date} with `{report.command}`"
    head = f"{told} on {report.machine}. {', '.join(named)}."
    written = {}
    for table in report.tables:
        parts = [f"{TITLE}{table.title}", _rows(table)]
        parts += [f"![{table.title}]({PLOTS}/{table.name}.svg)"] if table.name in plots else []
        parts += [table.note] if table.note else []
        parts += [] if report.whole else [f"{told}, commit {report.versions['commit']}."]
        written[table.title] = "\n\n".join(parts)
    return head, written


def _rows(table: Table) -> str:
    head = [column.heading for column in table.columns]
    ruler = ["---:"] * len(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *table.cells()))


def _plots(report: Report) -> Iterator[tuple[str, str]]:
    if (limited := report.table("limited")) and limited.rows:
        yield "limited", _pace(limited)
    if (backlog := report.table("backlog")) and backlog.rows:
        yield "backlog", _cost(backlog)


def _pace(table: Table) -> str:
    counts = sorted({int(row["processes"] or 0) for row in table.rows})
    lines = [
        Line(
            f"{count} process{'es' if count > 1 else ''}",
            table.series("slugs", "rate", processes=count),
        )
        for count in counts
    ]
    x = Axis("couriers with a backlog, 2 calls a second each", logarithmic=True)
    return plot("Rate achieved of the rate allowed", x, Axis("", low=0.8, high=1.0), lines)


def _cost(table: Table) -> str:
    named = {
        "worker per call": "worker_us",
        "Redis per call": "redis_us",
        "Redis per parking": "park_redis_us",
    }
    lines = [Line(name, table.series("waiting", key)) for name, key in named.items()]
    x = Axis("requests waiting", logarithmic=True)
    return plot("CPU microseconds against the backlog", x, Axis("", low=0.0), lines)
