"""jemalloc for a Redis-compatible server from a wheel.

Redis, Valkey and their official images are built with jemalloc; the wheel's server is not, and
spends a third of its CPU in the C library's allocator. A program that measures calls `fetch`
first; all others take what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devstack import package
from devstack.errors import NotUsable

LIBRARY = "libjemalloc.so.2"
PACKAGE = "libjemalloc2"
SYSTEM = ("usr/lib/*/", "usr/lib64/", "usr/lib/")


def jemalloc() -> Mapping[str, str]:
    """What to add to a program's environment. Raises NotUsable where there is no jemalloc."""
    cached = package.CACHE / LIBRARY
    found = [path for folder in SYSTEM for path in sorted(Path("/").glob(folder + LIBRARY))]
    library = next((path for path in [*found, cached] if path.exists()), None)
    if library is None:
        raise NotUsable(f"there is no {LIBRARY} on this system")
    # A name and its folder: LD_PRELOAD is a list with blanks between, so no path with one fits.
    return {"LD_LIBRARY_PATH": str(library.parent), "LD_PRELOAD": library.name}


def fetch() -> None:
    """Have jemalloc here, from the distribution's package. Raises NotUsable with the reason."""
    try:
        jemalloc()
    except NotUsable:
        package.download(PACKAGE, package.CACHE / LIBRARY, f"usr/lib/*/{LIBRARY}")
