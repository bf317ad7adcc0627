"""A name that is empty is that of a variable that is not set: it must not mean everything."""

from __future__ import annotations

import pytest
from command_line import Run


@pytest.mark.parametrize(
    "line",
    [
        ["cancel", "--slug", "", "--origin", "AUTOMATIC", "--yes"],
        ["cancel", "--csv", "", "--older-than", "1h", "--yes"],
        ["cancel", "--id", "", "--slug", "usps", "--yes"],
        ["dead", "delete", "--slug", "", "--reason", "too_late", "--yes"],
        ["dead", "kick", "--slug", "usps", "--reason", " ", "--yes"],
        ["dead", "list", "--slug", ""],
        ["resend", "", "--since", "1h", "--yes"],
        ["resend", "usps", "", "--since", "1h", "--yes"],
        ["resend", "usps", "--reason", "", "--since", "1h", "--yes"],
        ["reparse", "--slug", ""],
        ["show", "--id", ""],
        ["stats", "--slug", ""],
    ],
    ids=" ".join,
)
def test_an_empty_name_is_refused(offline: Run, line: list[str]) -> None:
    done = offline(*line)

    assert done.code == 2
    assert "it is empty: name one, or leave it out" in done.err
