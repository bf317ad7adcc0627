"""Which errors of a bulk write are about single documents, and which about more."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from service.results.failure import DUPLICATE_KEY, faults_in

INVALID = 121


def error(*codes: int, unconfirmed: bool = False, **more: Any) -> BulkWriteError:
    faults = [
        {"index": index, "code": code, "errmsg": f"of {index}", **more}
        for index, code in enumerate(codes)
    ]
    waited = [{"code": 64, "errmsg": "timed out"}] if unconfirmed else []
    return BulkWriteError({"writeErrors": faults, "writeConcernErrors": waited})


def test_documents_that_are_there_already_are_named() -> None:
    assert faults_in(error(DUPLICATE_KEY, DUPLICATE_KEY)) == ([0, 1], {})


@pytest.mark.parametrize(
    "each",
    [error(INVALID), error(DUPLICATE_KEY, keyPattern={"number": 1})],
    ids=["a validator", "a unique index of others"],
)
def test_a_document_that_is_never_taken_is_refused_alone(each: BulkWriteError) -> None:
    assert faults_in(each) == ([], {0: "MongoDB refuses it: of 0"})


@pytest.mark.parametrize(
    "other",
    [
        error(DUPLICATE_KEY, 14031),
        error(DUPLICATE_KEY, unconfirmed=True),
        error(INVALID, unconfirmed=True),
        error(unconfirmed=True),
    ],
    ids=["a full disk", "no majority for the rest", "nor for a refusal", "no majority"],
)
def test_anything_else_is_an_error_of_the_whole(other: BulkWriteError) -> None:
    with pytest.raises(BulkWriteError):
        faults_in(other)
