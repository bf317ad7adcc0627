"""The page of the command line: `python tests/docs/cli_page.py` writes it out of the parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cli.md"
sys.path.insert(0, str(ROOT))

from service.console.arguments import Exit  # noqa: E402 - the path first, where this is a script
from service.console.examples import USAGES  # noqa: E402 - the same
from service.console.parser import VerbParser, parser  # noqa: E402 - the same

GROUPS = {
    "Processes": ("run", "api", "ingest", "demo"),
    "Requests": ("put", "show", "detect", "cancel", "resend", "dead", "recover", "reparse"),
    "Couriers and workers": ("info", "stats", "proof", "pause", "resume", "limits"),
    "Accounts": ("account", "key", "user"),
    "Webhooks and the relay": ("service", "delivery", "inbox"),
    "What is kept": ("list", "events", "forget", "purge"),
    "This installation": ("check", "doctor", "config", "completion"),
}

BY_OTHERS = dict.fromkeys(("run", "api", "ingest"), "nobody: it serves until SIGTERM") | {
    "demo": "tests/console/test_demo.py",
    "events": "tests/console/test_events.py",
}
"""Who runs the examples of verbs that the walk of the page cannot run."""

MARK = "<!-- the verbs, as the parser knows them -->\n"


def page() -> str:
    """Write the page: behind the mark what the parser says."""
    head, _, _ = PAGE.read_text("utf-8").partition(MARK)
    top = parser()
    verbs = dict(_choices(top))
    parts = [head + MARK]
    for title, names in GROUPS.items():
        there = [name for name in names if name in verbs]
        parts.append(f"## {title}\n\n" + "\n".join(_verb(name, verbs[name]) for name in there))
    return "\n".join(parts)


def _verb(name: str, verb: argparse.ArgumentParser) -> str:
    if isinstance(verb, VerbParser):
        verb.learn()
    actions = dict(_choices(verb))
    lines = [f"### {name}", "", " ".join(f"{verb.description}".split()), ""]
    for action, each in actions.items():
        lines.append(f"- `{action}`: {' '.join(f'{each.description}'.split())}")
    lines += [""] if actions else []
    named = [f"{name} {action}" for action in actions] or [name]
    examples = [f"tracker {each}" for one in named for each in USAGES[one].examples]
    mark = [f"<!-- run by {BY_OTHERS[name]} -->"] if name in BY_OTHERS else []
    lines += [*mark, "```text", *examples, "```", ""]
    return "\n".join(lines)


def _choices(of: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in of._actions:  # noqa: SLF001 - argparse tells its verbs nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            yield from action.choices.items()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.exit(Exit.DONE)
