"""MongoDB's failures: the driver's errors in words, with the fix, and which of them last."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)

from tracking.errors import ResultsDown
from tracking.network import network_reason

_APPENDICES = (", full error:", " (configured timeouts", ", Timeout:", " to execute command")
"""From here on the driver appends documents, settings and topologies."""

_SILENT = "No servers found yet"
"""What the driver says of a server that took the connection and then nothing."""

_ERRNO = re.compile(r"\[Errno -?\d+\] ")
UNAUTHORIZED, _AUTHENTICATION_FAILED = 13, 18
_LASTING = {UNAUTHORIZED, *(20, 67, 72, 85, 86, 166, 197)}
"""Codes of MongoDB for what stays so until somebody changes it: an operation, an index or an option
that it does not take, an index that another one excludes, a view in place of a collection."""

_REFUSING = {
    UNAUTHORIZED,
    _AUTHENTICATION_FAILED,
    *(189, 10107, 11602, 13435, 13436),  # not the primary
    *(371, 8000, 14031),  # writes are blocked, over quota, out of disk space
}
"""Codes of MongoDB for what is refused whatever is written."""

DUPLICATE_KEY = 11000
_OF_ID = {"_id": 1}

_LOGIN = (
    "mongodb.uri (USER:PASSWORD@ before the hosts, signs like @ written as %40; "
    "?authSource=DATABASE names the database that knows the user)"
)
_MEMBERS = "Start its members that are away, or look why they lag."
_FAILURES: tuple[tuple[type[Exception], str, str], ...] = (
    (NotPrimaryError, "takes no writes (it is not the primary)", ""),
    (WTimeoutError, "has no majority that confirms writes in time", _MEMBERS),
    (ConfigurationError, "cannot be asked at its address ({text})", "Correct mongodb.uri."),
    (ConnectionFailure, "does not answer ({text})", "Start it, or correct mongodb.uri."),
    (PyMongoError, "did not do what it was asked ({text})", ""),
)
"""The first that fits holds; `text` is the driver's own, without its appendices."""


def mongodb_down(error: Exception) -> ResultsDown:
    """Word an error of the driver or of the network; raise it `from error`."""
    text = _without_appendices(str(error)) or network_reason(error) or type(error).__name__
    if isinstance(error, OperationFailure) and error.code == _AUTHENTICATION_FAILED:
        fix = f"Correct them in {_LOGIN}."
        return ResultsDown("MongoDB refuses the user name or the password", fix)
    if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
        if "requires authentication" in text:
            fix = f"Set them in {_LOGIN}."
            return ResultsDown("MongoDB asks for a user name and a password", fix)
        fix = "Give the user in mongodb.uri the role readWrite on the database."
        return ResultsDown(f"MongoDB forbids a command ({text})", fix)
    if "response id" in text:
        return ResultsDown("MongoDB is not what answers there", "Correct mongodb.uri.")
    if isinstance(error, BulkWriteError) and error.timeout:
        error = WTimeoutError(text)
    for kind, what, fix in _FAILURES:
        if isinstance(error, kind):
            return ResultsDown(f"MongoDB {what.format(text=text)}", fix)
    return ResultsDown(f"MongoDB does not answer ({text})", "Start it, or correct mongodb.uri.")


def is_lasting(error: BaseException | None) -> bool:
    """Whether a failure stays until a person changes something, so that to try again is no use."""
    return isinstance(error, OperationFailure) and error.code in _LASTING


def refuses_writes(error: BaseException | None) -> bool:
    """Whether a server that answers would refuse every other write, too."""
    if isinstance(error, BulkWriteError):
        return any(each.get("code") in _REFUSING for each in error.details["writeErrors"])
    return isinstance(error, OperationFailure) and error.code in _REFUSING


class Faults(NamedTuple):
    """The documents of a bulk that were not written, each by its index.

    `known` were there already. `refused` are never taken as they are, by the reason: a validator,
    or another document with the same values of a unique index.
    """

    known: list[int]
    refused: dict[int, str]


def faults_in(error: BulkWriteError) -> Faults:
    """Part the faults of single documents. Raises `error` if more than these were not written."""
    if error.details.get("writeConcernErrors") or refuses_writes(error):
        raise error
    faults = Faults([], {})
    for each in error.details["writeErrors"]:
        if each["code"] == DUPLICATE_KEY and each.get("keyPattern", _OF_ID) == _OF_ID:
            faults.known.append(each["index"])
        else:
            faults.refused[each["index"]] = f"MongoDB refuses it: {each['errmsg']}"
    return faults


def faults_of(write: Callable[[], object]) -> Faults:
    """Run a bulk write. Returns the faults of single documents; raises as `faults_in`."""
    try:
        write()
    except BulkWriteError as error:
        return faults_in(error)
    return Faults([], {})


def _without_appendices(text: str) -> str:
    for appendix in _APPENDICES:
        text = text.partition(appendix)[0]
    if text == _SILENT:
        return "no answer in time"
    return _ERRNO.sub("", text).rstrip(". ")
