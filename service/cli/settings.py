"""The configuration that a command line names."""

from __future__ import annotations

import argparse
import os
import socket
from pathlib import Path

import service
from service.config.load import Loaded, load, which_file
from service.config.secret import secrets_of
from service.observe.writer import Lines, lines

HOME = Path(service.__file__).parents[1]
"""Where worker.py and the shipped config.toml are."""


def loaded(options: argparse.Namespace) -> Loaded:
    """Read the configuration of `--config` and the environment. Raises ConfigError."""
    return load(options.config, os.environ, HOME)


def log_lines(setting: Loaded) -> Lines:
    """Say how the lines of this process are written."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return lines(setting.config.log.format, secrets_of(setting.config), worker=worker)


def installation(options: argparse.Namespace) -> str:
    """Name what a worker was started with: its configuration file, or the folder without one.

    `check --worker` finds the workers of the same name. Reads nothing, so that a file that is being
    edited makes no worker unhealthy.
    """
    return str((which_file(options.config, os.environ, HOME) or HOME).resolve())
