"""`make mutants`: break one invariant after the other; exit code 1 when the suite lets one pass."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from mutants.catalogue import CATALOGUE
from mutants.trial import NotGreen, table, try_all


def main() -> int:
    """Try the mutants and print the table."""
    asked = _arguments().parse_args()
    chosen = [mutant for mutant in CATALOGUE if asked.only in mutant.name]
    if not chosen:
        sys.stderr.write(f"No mutant is called {asked.only!r}.\n")
        return 2
    try:
        trials = try_all(chosen, _progress(len(chosen)))
    except NotGreen as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(table(trials))
    return int(any(trial.caught_by is None for trial in trials))


def _progress(count: int) -> Callable[[int], None]:
    """On a terminal one line that tells how far it is; else nothing."""

    def show(done: int) -> None:
        end = "\r\033[K" if done == count else ""
        sys.stderr.write(f"\r{done} of {count} mutants tried{end}")
        sys.stderr.flush()

    return show if sys.stderr.isatty() else lambda _: None


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="those with this in their name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
