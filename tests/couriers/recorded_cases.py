"""The cases of every courier: `tests/couriers/<module>/cases.json`, as docs/couriers.md says."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Case = dict[str, Any]

FILES = {file.parent.name: file for file in sorted(Path(__file__).parent.glob("*/cases.json"))}


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice: the first of two cases would never run."""
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), f"twice: {sorted(names)}"
    return dict(pairs)


def whole(case: Case, cases: Mapping[str, Case]) -> Case:
    """Write a case out that only names what differs from the one it is `like`."""
    if "like" not in case:
        return case
    made = copy.deepcopy(cases[case["like"]])
    changes = {path: value for path, value in case.items() if path not in ("like", "without")}
    for path in case.get("without", ()):
        parent, name = place(made, path)
        del parent[name]
    for path, value in changes.items():
        parent, name = place(made, path)
        parent[name] = value
    return made


def place(case: Any, path: str) -> tuple[Any, Any]:
    *way, name = (int(step) if step.isdigit() else step for step in path.split("/"))
    for step in way:
        case = case[step]
    return case, name


def cases_of(module: str) -> dict[str, Case]:
    """Read a courier's cases by their sentences, written out, each with its number."""
    told = json.loads(FILES[module].read_text(), object_pairs_hook=once)
    return {
        sentence: {"number": told["number"], **whole(case, told["cases"])}
        for sentence, case in told["cases"].items()
    }


def body_of(part: Case) -> bytes:
    return (json.dumps(part["body"]) if "body" in part else "".join(part.get("text", ""))).encode()
