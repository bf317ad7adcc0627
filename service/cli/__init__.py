"""The command line: `python worker.py VERB`. One module per verb, imported when it is chosen."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from service.cli.exit_codes import Exit, UsageError
from service.cli.parser import parser
from service.config.problems import ConfigError
from service.observe.redact import printable
from tracking.errors import MalformedJob, StoreError


def main(arguments: Sequence[str]) -> int:
    """Run one verb; returns its exit code. An error is one line, not a traceback."""
    options = parser().parse_args(arguments)
    try:
        code: int = import_module(f"service.cli.{options.module}").run(options)
        sys.stdout.flush()
    except ConfigError as error:
        return _ended(Exit.WRONG, "\n".join(map(str, error.problems)))
    except (UsageError, MalformedJob) as error:
        return _ended(Exit.WRONG, error.detail if isinstance(error, MalformedJob) else f"{error}")
    except StoreError as error:
        told = printable(f"{error}").rstrip(".")
        return _ended(Exit.AWAY, f"{told}. `python worker.py doctor` tells more.")
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # `worker.py info | head`: nobody reads any more, and Python must not complain at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    return code


def _ended(code: Exit, text: str) -> int:
    sys.stderr.write("".join(f"worker.py: {line}\n" for line in text.splitlines()))
    return code
