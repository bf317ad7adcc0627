"""Everything that runs: configuration, the flow, the stores, upkeep and the command line."""

import sys

# To find that PyOpenSSL is not there, PyMongo would load all of `cryptography`: a quarter of what a
# worker's start costs, and 3 MB of each process. The TLS of Python serves MongoDB either way.
sys.modules.setdefault("pymongo.pyopenssl_context", None)  # type: ignore[arg-type] # not to be had

VERSION = "0.1.0"
"""Of the whole project, as in pyproject.toml, which is not in the image."""

REFUSED = 2
"""The exit code of what must not be tried again: wrong settings, or a server that is refused."""
