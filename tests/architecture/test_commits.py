"""What nobody else has yet can still be said better: the subjects of unpublished commits."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SUBJECT = re.compile(r"(?=.{1,72}$)[a-z][\w,./ -]*: [^\sA-Z].*[^\s.]")
"""`area: verb …`, of at most 72 characters."""


def git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(REPOSITORY), *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(done.stderr)
    return done.stdout.strip()


def unpublished() -> list[str]:
    """Subjects of the commits that no remote has; without a remote, that `main` has not."""
    published = ["--remotes"] if git("remote") else ["main"]
    return git("log", "--no-merges", "--format=%s", "HEAD", "--not", *published).splitlines()


def test_the_subject_of_a_commit_is_an_area_and_what_it_does() -> None:
    try:
        subjects = unpublished()
    except OSError as error:
        pytest.skip(f"git tells nothing of this folder: {error}")

    assert [subject for subject in subjects if not SUBJECT.fullmatch(subject)] == []


@pytest.mark.parametrize(
    ("subject", "well"),
    [
        ("limits: drop expired leases before counting", True),
        ("couriers, docs: say which couriers push", True),
        ("limits/lua: " + "x" * 60, True),
        ("limits/lua: " + "x" * 61, False),
        ("drop expired leases before counting", False),
        ("limits: Drop expired leases", False),
        ("limits: drop expired leases.", False),
        ("limits:drop expired leases", False),
    ],
)
def test_a_subject_is_judged(subject: str, *, well: bool) -> None:
    assert bool(SUBJECT.fullmatch(subject)) is well
