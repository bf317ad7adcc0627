"""The tables of couriers in docs/couriers.md, made out of the modules.

`python tests/docs/courier_tables.py` writes them; test_courier_tables.py compares.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from couriers.reading.numbers import NumberForm  # noqa: E402 - as above
from couriers.registry import (  # noqa: E402 - as above
    COURIERS,
    MODULES,
    Courier,
    required_fields,
)
from couriers.slugs import TOGETHER  # noqa: E402 - as above
from tracking.checkpoint import Tracking  # noqa: E402 - as above
from tracking.request import FIELDS  # noqa: E402 - as above

PER_SECOND = 2
CALLS_A_DAY = PER_SECOND * 86_400
EVERY: dict[str, Courier] = {**COURIERS, **MODULES}
TOLD = (
    "expected_delivery",
    "signed_by",
    "proof_of_delivery",
    "origin",
    "destination",
    "weight_grams",
    "service",
    "reference",
    "sub_parcels",
)


def needed() -> str:
    """What each courier needs: credentials, and fields of a request besides the number."""
    rows = []
    for slug, each in EVERY.items():
        required = [f"**`{name}`**" for name in required_fields(each)]
        read = _names_in(each) & set(FIELDS) - set(required_fields(each))
        fields = ", ".join([*required, *(f"`{name}`" for name in sorted(read))])
        other = getattr(each, "OTHER_WAY", None)
        keys = _keys(each.CREDENTIALS) + (f"; or {_keys(other.credentials)}" if other else "")
        rows.append((f"`{slug}`", keys, each.CREDENTIALS_FROM, fields))
    return _table(
        ("slug", "credentials in `[couriers.<slug>]`", "get them from", "fields of a request"), rows
    )


def told() -> str:
    """What each courier tells besides status and checkpoints."""
    rows = []
    for slug, each in EVERY.items():
        given = _given(each)
        rows.append((f"`{slug}`", *("yes" if name in given else "" for name in TOLD)))
    return _table(("slug", *(f"`{name}`" for name in TOLD)), rows)


def forms() -> str:
    """The forms of each courier's numbers."""
    rows = [
        (f"`{slug}`", ", ".join(map(_form, each.PATTERNS)))
        for slug, each in EVERY.items()
        if each.PATTERNS
    ]
    return _table(("slug", "forms of numbers"), rows)


def together() -> str:
    """How many numbers a call to each courier carries, and what that makes a second and a day."""
    rows = []
    for slug in COURIERS:
        numbers, calls = TOGETHER.get(slug, 1), QUOTAS.get(slug)
        quota, parcels = f"{calls:,}" if calls else "", _parcels_a_day(slug)
        rows.append((f"`{slug}`", f"{numbers}", f"{numbers * PER_SECOND}", quota, f"{parcels:,}"))
    calls_a_day = "calls a day by its quota"
    return _table(
        ("slug", "numbers in a call", "parcels a second", calls_a_day, "parcels a day"), rows
    )


def _parcels_a_day(slug: str) -> int:
    return TOGETHER.get(slug, 1) * QUOTAS.get(slug, CALLS_A_DAY)


def _quotas() -> dict[str, int]:
    """Read the calls a day of the quotas that config.toml has in its comments, where they bind."""
    text = (ROOT / "config.toml").read_text()
    tables = re.findall(r"(?m)^# (\[limits\.slugs\..*\](?:\n# \w+ = .*)+)", text)
    told = tomllib.loads("\n".join(table.replace("\n# ", "\n") for table in tables))
    days = {
        slug: min(own.get("per_hour", CALLS_A_DAY) * 24, own.get("per_day", CALLS_A_DAY))
        for slug, own in told["limits"]["slugs"].items()
    }
    return {slug: calls for slug, calls in days.items() if calls < CALLS_A_DAY}


def short() -> str:
    """All couriers by the credentials that they need, at a glance.

    Those that need what no other does share a row, or each new one would make the page longer.
    Behind a name stands what the courier gives at two calls a second, where it is not the usual.
    """
    by_keys: dict[str, list[str]] = {}
    for slug, each in EVERY.items():
        feed = f'any HTTP feed, by `module = "{slug}"`'
        name = f"{each.NAME} `{slug}`{_given_by(slug)}" if slug in COURIERS else feed
        by_keys.setdefault(_keys(each.CREDENTIALS), []).append(name)
    shared = [(keys, ", ".join(names)) for keys, names in sorted(by_keys.items()) if names[1:]]
    alone = [name for names in by_keys.values() if not names[1:] for name in names]
    rows = [*shared, ("others", ", ".join(alone))] if alone else shared
    usual = f"{PER_SECOND} parcels a second and {CALLS_A_DAY:,} a day"
    return _table(("credentials", f"couriers, and what they give where it is not {usual}"), rows)


def _given_by(slug: str) -> str:
    second, day = TOGETHER.get(slug, 1) * PER_SECOND, _parcels_a_day(slug)
    told = [f"{second} a second"] if second != PER_SECOND else []
    told += [f"{day:,} a day"] if day != CALLS_A_DAY else []
    return f" ({', '.join(told)})" if told else ""


QUOTAS = _quotas()

TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "docs/couriers.md": {
        "couriers": short,
        "needed": needed,
        "told": told,
        "forms": forms,
        "together": together,
    },
}
"""By page: the marks between which a table stands."""


def made(page: str, text: str) -> str:
    """Put the page's tables between their marks. Raises ValueError for a mark that is not there."""
    for name, table in TABLES[page].items():
        begin, end = f"<!-- table of couriers: {name} -->\n", "<!-- end of the table -->\n"
        before, mark, rest = text.partition(begin)
        _, closing, after = rest.partition(end)
        if not mark or not closing:
            raise ValueError(f"{page} lacks the marks {begin.strip()} … {end.strip()}")
        text = f"{before}{begin}{table()}{end}{after}"
    return text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("  ", " ") for line in lines)


def _keys(names: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in names) or "none"


def _form(form: NumberForm) -> str:
    pattern = form.text.replace("|", "\\|")
    sure = " checked" if form.check else " loose" if form.loose else ""
    return f"`{pattern}`{sure}"


def _sources(courier: Courier) -> list[str]:
    file = Path(inspect.getfile(courier))  # type: ignore[arg-type]
    files = file.parent.glob("*.py") if file.name == "__init__.py" else [file]
    return [path.read_text() for path in files]


def _names_in(courier: Courier) -> set[str]:
    return {name for source in _sources(courier) for name in re.findall(r"tracking_\w+", source)}


def _given(courier: Courier) -> set[str | None]:
    """List the fields that the module ever fills in an answer."""
    calls = [
        node
        for source in _sources(courier)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        if getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Tracking", "_replace")
    ]
    by_place = {name for call in calls for name in Tracking._fields[: len(call.args)]}
    return by_place | {keyword.arg for call in calls for keyword in call.keywords}


def main() -> None:
    """Write the tables into their pages."""
    for page in TABLES:
        path = ROOT / page
        path.write_text(made(page, path.read_text()))


if __name__ == "__main__":
    main()
