"""Everything that runs: configuration, the flow, the stores, upkeep and the command line."""

import os
import shlex
import sys
from pathlib import Path

# To find that PyOpenSSL is not there, PyMongo would load all of `cryptography`: a quarter of what a
# worker's start costs, and 3 MB of each process. The TLS of Python serves MongoDB either way.
sys.modules.setdefault("pymongo.pyopenssl_context", None)  # type: ignore[arg-type] # not to be had

VERSION = "0.1.0"
"""Of the whole project, as in pyproject.toml, which is not in the image."""

REFUSED = 2
"""The exit code of what must not be tried again: wrong settings, or a server that is refused."""


NAME = "tracker"
"""The name of the command that `make setup` puts beside Python, and that the image has on PATH."""


def _program() -> str:
    """Write how a shell that was just opened in this folder runs the command line."""
    command = Path(sys.executable).with_name(NAME)
    if not command.is_file():
        return f"{shlex.quote(sys.executable)} worker.py"
    if str(command.parent) in os.environ.get("PATH", "").split(os.pathsep):
        return NAME
    here = f"{Path.cwd()}{os.sep}"
    return shlex.quote(str(command).removeprefix(here))


PROGRAM = _program()
"""With this each command begins that a message names."""
