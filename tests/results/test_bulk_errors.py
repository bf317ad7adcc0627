"""Which errors of a bulk insert mean that all is well."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from service.results.bulk import DUPLICATE_KEY, duplicates_in


def error(*codes: int, unconfirmed: bool = False) -> BulkWriteError:
    details: dict[str, Any] = {
        "writeErrors": [{"index": index, "code": code} for index, code in enumerate(codes)],
        "writeConcernErrors": [{"code": 64, "errmsg": "timed out"}] if unconfirmed else [],
    }
    return BulkWriteError(details)


def test_documents_that_are_there_already_are_named() -> None:
    assert duplicates_in(error(DUPLICATE_KEY, DUPLICATE_KEY)) == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        error(DUPLICATE_KEY, 14031),
        error(DUPLICATE_KEY, unconfirmed=True),
        error(unconfirmed=True),
    ],
    ids=["a full disk", "no majority for the rest", "no majority"],
)
def test_anything_else_is_an_error_of_the_whole(other: BulkWriteError) -> None:
    with pytest.raises(BulkWriteError):
        duplicates_in(other)
