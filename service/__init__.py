"""Everything that runs: configuration, the flow, the stores, upkeep and the command line."""

VERSION = "0.1.0"
"""Of the whole project, as in pyproject.toml, which is not in the image."""

REFUSED = 2
"""The exit code of what must not be tried again: wrong settings, or a server that is refused."""
