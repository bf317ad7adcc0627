"""The configuration that a command line names."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import service
from service.config.load import Loaded, load

HOME = Path(service.__file__).parents[1]
"""Where worker.py and the shipped config.toml are."""


def loaded(options: argparse.Namespace) -> Loaded:
    """Read the configuration of `--config` and the environment. Raises ConfigError."""
    return load(options.config, os.environ, HOME)
