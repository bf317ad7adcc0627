"""What the arguments of verbs share. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

import argparse
import math
from textwrap import fill
from typing import TypeAlias

from service.cli.exit_codes import EXPLAINED

WIDTH = 79
"""Of a description: argparse wraps none beside an epilog that is to stay as it is."""

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - unnamed


def with_epilog(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Tell the exit codes at the end of `--help`."""
    made.epilog = EXPLAINED
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    return made


def a_verb(verbs: Verbs, name: str, text: str, module: str = "") -> argparse.ArgumentParser:
    """Add a verb; `module` is where it runs, in `service.cli`, unless it has its name."""
    first = text[0].lower() + text[1:].rstrip(".")
    made = with_epilog(verbs.add_parser(name, help=first, description=fill(text, WIDTH)))
    # SUPPRESS: `--config` before the verb must not be overwritten by its absence after it.
    made.add_argument("--config", metavar="PATH", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    made.set_defaults(module=module or name)
    return made


def offer_json(made: argparse.ArgumentParser) -> None:
    """Offer to print JSON."""
    made.add_argument("--json", action="store_true", help="print JSON, one object per line")


def named(text: str) -> str:
    """Read a name; "" is a variable that is not set, and must not mean what no name means: all."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: name one, or leave it out")
    return text


def seconds_of(text: str) -> float:
    """Read a number of seconds; `--wait usps 9405…` is a frequent slip."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds, 0 or more; write options after SLUG NUMBER"
        )
    return seconds


def from_one_on(text: str) -> int:
    """Read a whole number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
