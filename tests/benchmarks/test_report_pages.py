"""A report is kept, read back and written into a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.pages import BEGIN, END, PAGE, NoMarkers, between_markers, markdown, write_docs
from benchmarks.plan import Column, Table, shown
from benchmarks.report import Report

PACE = Table(
    "limited",
    "Limits in force",
    (Column("slugs", "slugs"), Column("rate", "rate", 3)),
    (
        {"slugs": 10, "processes": 1, "rate": 0.9785},
        {"slugs": 1200, "processes": 1, "rate": 0.97},
        {"slugs": 1200, "processes": 2, "rate": 0.96},
    ),
    "A note.",
)
IDLE = Table("idle", "Idle", (Column("slugs", "slugs"),), ({"slugs": 50},))
LATENCY = Table("latency", "Latency", (Column("slugs", "slugs"),), ({"slugs": 5},))
REPORT = Report("a machine", {"Python": "3.11"}, "python -m benchmarks", "2024-05-01", (PACE,))


def test_a_report_is_read_back_as_it_was_kept(tmp_path: Path) -> None:
    REPORT.write(tmp_path / "new" / "last.json")

    kept = Report.read(tmp_path / "new" / "last.json")

    assert markdown(kept) == markdown(REPORT)
    table = kept.table("limited")
    assert table is not None
    assert [dict(row) for row in table.rows] == list(PACE.rows)


def test_a_table_of_the_same_name_is_replaced() -> None:
    newer = Table("limited", "Newer", (), ())

    assert [table.title for table in REPORT.having([newer]).tables] == ["Newer"]


def test_a_run_that_is_not_whole_leaves_the_other_tables_and_says_when_it_was(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\n{END}\n")
    write_docs(REPORT.having([IDLE, LATENCY]), page)
    command = "python -m benchmarks --only idle"
    newer = replace(IDLE, rows=({"slugs": 77},))
    run = Report("a machine", {"commit": "abc1"}, command, "2024-06-02", (newer,), whole=False)

    write_docs(run, page)
    once = page.read_text()
    write_docs(run, page)

    assert page.read_text() == once
    assert once.startswith(
        f"before\n{BEGIN}\nMeasured 2024-05-01 with `python -m benchmarks` on a machine."
    )
    assert [each.partition("\n")[0] for each in once.split("### ")[1:]] == [
        "Limits in force",
        "Idle",
        "Latency",
    ]
    idle = once.partition("### Idle")[2].partition("### Latency")[0]
    assert "| 77 |" in idle
    assert "| 50 |" not in idle
    assert idle.strip().endswith(f"Measured 2024-06-02 with `{command}`, commit abc1.")


def test_a_page_gets_the_tables_between_its_markers_and_the_plots_beside_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    written = write_docs(REPORT, page)

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| 1,200 | 0.970 |" in text
    assert "](plots/limited.svg)" in text
    assert [path.name for path in written] == ["page.md", "limited.svg"]
    assert written[1].read_text().startswith("<svg")


def test_writing_the_same_report_twice_changes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    write_docs(REPORT, page)
    once = page.read_text()

    write_docs(REPORT, page)

    assert page.read_text() == once


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}"])
def test_a_page_without_its_markers_is_left_alone(text: str) -> None:
    with pytest.raises(NoMarkers):
        between_markers(text, "new")


def test_the_page_of_this_repository_has_its_markers() -> None:
    assert "new" in between_markers(PAGE.read_text(), "new")


def test_a_series_holds_the_rows_that_have_both_values() -> None:
    assert PACE.series("slugs", "rate", processes=1) == [(10, 0.9785), (1200, 0.97)]
    assert PACE.series("slugs", "absent") == []


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(None, 2, ""), ("usps", 2, "usps"), (1200, 2, "1,200"), (0.9785, 2, "0.98"), (7.5, 0, "8")],
)
def test_values_are_written_for_people(value: float | str | None, digits: int, text: str) -> None:
    assert shown(value, digits) == text
