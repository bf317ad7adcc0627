"""The configuration that a command line names, and the stores that it names.

What reads them is loaded when a verb runs, so that `--help` is instant.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import service
from service.console.arguments import Options, Run, UsageError
from tracking.errors import NotDone

if TYPE_CHECKING:
    from service.config.load import Loaded
    from service.config.schema import Config
    from service.operator.connections import Collections

HOME = Path(service.__file__).parents[1]
"""Where worker.py and the shipped config.toml are."""


def loaded(options: Options) -> Loaded:
    """Read the configuration of `--config` and the environment. Raises ConfigError."""
    from service.config import load  # noqa: PLC0415 - see above

    return load.load(options.config, os.environ, HOME)


def installation(options: Options) -> str:
    """Name what a worker was started with: its configuration file, or the folder without one.

    `check --worker` finds the workers of the same name. Reads nothing, so that a file that is being
    edited makes no worker unhealthy.
    """
    from service.config import load  # noqa: PLC0415 - see above

    return str((load.which_file(options.config, os.environ, HOME) or HOME).resolve())


def on_stores(act: Callable[[Options, Config, Collections], int]) -> Run:
    """Make what runs an act on the collections of MongoDB, and gives its exit code.

    What the act refuses (NotDone) is a mistake in the command: raises UsageError. Raises
    ResultsDown where MongoDB does not answer.
    """

    def run(options: Options) -> int:
        from service.operator import connections  # noqa: PLC0415 - see above

        config = loaded(options).config
        try:
            with connections.collections_of(config) as stores:
                return act(options, config, stores)
        except NotDone as error:
            raise UsageError(str(error)) from error

    return run
