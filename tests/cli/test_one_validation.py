"""Every verb refuses the same settings, with the same words, before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Run

NUMBER = "9405903699300184125060"
VERBS = [
    ("run",),
    ("check",),
    ("doctor",),
    ("config", "show"),
    ("config", "show", "--json"),
    ("info",),
    ("put", "usps", NUMBER),
    ("show", "usps", NUMBER),
    ("cancel", "usps", NUMBER),
    ("dead", "list"),
    ("detect", NUMBER),
    ("reparse",),
]
WRONG = """\
[couriers.upps]
client_id = "x"
[limits]
per_second = "fast"
[limits.slugs.acme]
per_second = 3
"""


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_tells_all_problems_and_does_nothing(
    offline: Run, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(WRONG)

    done = offline("--config", str(file), *verb)

    assert (done.code, done.out) == (2, "")
    told = [line.split(" (")[0] for line in done.err.splitlines()]
    assert told == [
        "worker.py: limits.per_second",
        "worker.py: couriers.upps",
        "worker.py: limits.slugs.acme",
    ]
    assert all(line.endswith((".", "?")) for line in done.err.splitlines())


@pytest.mark.parametrize("verb", [("run",), ("check",), ("config", "show")], ids=" ".join)
def test_a_slip_in_a_variable_is_answered_with_a_variable(
    offline: Run, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TRACKER_LIMITS__SLUGS__UPPS__CONCURRENT", "1")

    done = offline(*verb)

    assert done.code == 2
    assert done.err.endswith("Did you mean TRACKER_LIMITS__SLUGS__UPS?\n")
