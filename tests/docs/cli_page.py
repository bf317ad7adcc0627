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
    "Couriers and workers": ("info", "stats", "pause", "resume", "limits"),
    "Accounts": ("account", "key", "user"),
    "Webhooks and the relay": ("service", "delivery", "inbox"),
    "What is kept": ("list", "events", "forget", "purge"),
    "This installation": ("check", "doctor", "config", "completion"),
}

HEAD = """\
# Command line

`make setup` puts the command into `.venv/bin/tracker`, and the image has it on its path. It runs from any folder; a link
makes it shorter: `ln -s "$PWD/.venv/bin/tracker" ~/.local/bin/`. `python worker.py VERB` does the same, with the Python of
`.venv`. Below it is called `tracker`.

- `tracker VERB --help` names every option, with an example and the exit codes of that verb.
- Listings take `--json`: one object per line. A length of time is `90s`, `15m`, `2h` or `3d`.
- `--config PATH` names another configuration file, before the verb or behind it.
- The Tab key completes verbs and options: `eval "$(tracker completion bash)"` in `~/.bashrc` (or `zsh`); in fish
  `tracker completion fish | source`.

| exit code | means |
|---|---|
| 0 | done |
| 1 | a negative finding, which each verb's `--help` names: nothing found, or not all of it done |
| 2 | the command line or the configuration is wrong, or a server was refused |
| 3 | a server does not answer |
| 4 | `--wait` ran out of time before everything had ended |
| 130 | interrupted from the keyboard |
"""


def page() -> str:
    """Write the page."""
    top = parser()
    verbs = dict(_choices(top))
    parts = [HEAD]
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
    lines += [
        "```text",
        *(f"tracker {e}" for each in named for e in USAGES[each].examples),
        "```",
        "",
    ]
    return "\n".join(lines)


def _choices(of: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in of._actions:  # noqa: SLF001 - argparse tells its verbs nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - the same
            yield from action.choices.items()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.exit(Exit.DONE)
