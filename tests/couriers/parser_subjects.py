"""Every courier's subject, found by name: `tests/couriers/<module>/subject.py`.

A courier that is asked in two ways has one of each: `subject_<way>.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from runpy import run_path

from parser_subject import NUMBER, Subject

__all__ = ["NUMBER", "SUBJECTS", "Subject", "without_a_subject"]

SUBJECTS: list[Subject] = [
    run_path(str(path))["SUBJECT"] for path in sorted(Path(__file__).parent.glob("*/subject*.py"))
]


def without_a_subject(modules: Iterable[object]) -> list[str]:
    """Name the modules that the generic tests would miss."""
    return sorted(str(each) for each in modules if each not in [one.module for one in SUBJECTS])
