"""JSON in which no key stands twice and every number is one."""

from __future__ import annotations

import json
from typing import Any

from tracking.errors import MalformedJob


def read_strictly(body: bytes) -> Any:
    """Read one JSON value. Raises ValueError (UnicodeDecodeError is one) or RecursionError."""
    return _STRICT.decode(body.decode())


def read_json(body: bytes, shape: str) -> Any:
    """As `read_strictly`; raises MalformedJob: `bad_utf8` or `bad_json`.

    `shape`: what to write in the place of something that is nested too deep.
    """
    try:
        return read_strictly(body)
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8: write the JSON in UTF-8"
        raise MalformedJob("bad_utf8", why) from error
    except RecursionError as error:
        raise MalformedJob("bad_json", f"nested too deep: write {shape}") from error
    except ValueError as error:
        raise MalformedJob("bad_json", f"not JSON: {error}"[:200]) from error


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        # Two readers may each trust another one of the two values.
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:80]!r} is there twice")
            seen.add(key)
    return read


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON value")


_STRICT = json.JSONDecoder(object_pairs_hook=_without_twins, parse_constant=_no_constant)
