"""What the exit code of a verb means, and the error that ends one."""

from __future__ import annotations

from enum import IntEnum

from service import REFUSED


class Exit(IntEnum):
    """The exit codes; `--help` prints EXPLAINED."""

    DONE = 0
    NEGATIVE = 1
    WRONG = REFUSED
    AWAY = 3
    WAITED = 4
    INTERRUPTED = 130


EXPLAINED = """\
exit codes:
  0    done; for check: all is well
  1    a negative finding: not found, failed, or not all of it done
  2    the command line or the configuration is wrong, or a server was refused
  3    a server does not answer
  4    --wait ran out of time before everything had ended
  130  interrupted from the keyboard
"""


class UsageError(Exception):
    """The command line asks for something that cannot be; the text names it and the fix."""
