"""The entry point: `python worker.py` runs a worker, `python worker.py --help` lists the verbs."""

from __future__ import annotations

import sys

OLDEST = (3, 11)
OURS = frozenset({"couriers", "devstack", "limits", "service", "tracking"})


def start() -> int:
    """Run the command line; says what to do when this Python cannot run it at all."""
    if sys.version_info < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return _impossible(f"this is Python {sys.version.split()[0]}, {needed} or newer is needed")
    try:
        from service.console import main  # noqa: PLC0415 - older Pythons could not read it

        # A verb is imported when it is chosen, so what it lacks shows in there.
        return main(sys.argv[1:])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        return _impossible(
            f"{error.name} is not installed: use .venv/bin/python (`make setup` makes it)"
        )


def _impossible(why: str) -> int:
    sys.stderr.write(f"worker.py: {why}\n")
    return 2


if __name__ == "__main__":
    sys.exit(start())
