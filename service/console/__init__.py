"""The command line: `tracker VERB`. `parser.VERBS` names the module of each verb."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from service import NAME, PROGRAM
from service.config.problems import ConfigError
from service.console.arguments import Exit, UsageError
from service.console.parser import parse
from service.observe.redact import printable
from tracking.errors import MalformedJob, StoreError

_UNWRITABLE = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""The errors of a standard output that nobody reads, or of a file on a full or broken disk."""


def main(arguments: Sequence[str]) -> int:
    """Run one verb; returns its exit code. An error is one line, not a traceback."""
    _reopen_closed()
    options = parse(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except ConfigError as error:
        return _ended(Exit.WRONG, "\n".join(map(str, error.problems)))
    except (UsageError, MalformedJob) as error:
        return _ended(Exit.WRONG, error.detail if isinstance(error, MalformedJob) else f"{error}")
    except StoreError as error:
        line = printable(f"{error}").rstrip(".")
        return _ended(Exit.AWAY, f"{line}. `{PROGRAM} doctor` tells more.")
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except OSError as error:
        return _unwritten(error)
    return code


def _reopen_closed() -> None:
    """Make an empty file of each standard file that is closed: Python has None for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - for good
            setattr(sys, name, opened)


def _unwritten(error: OSError) -> int:
    """Tell why standard output took nothing; raises what was no failure of it."""
    if error.errno not in _UNWRITABLE:
        raise error
    # Python would complain at its exit about what it cannot write.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return Exit.DONE  # `tracker info | head`: nobody reads any more
    return _ended(Exit.NEGATIVE, f"standard output: {error.strerror}")


def _ended(code: Exit, text: str) -> int:
    sys.stderr.write("".join(f"{NAME}: {line}\n" for line in text.splitlines()))
    return code
